# Installs the headers, the virtual GPU's sources and the CMake package. The virtual GPU is built in the project that
# uses it (find_package(hostoffload COMPONENTS virtual_gpu)), so it has that project's compiler and sanitizers, and an
# installation is the same files on every machine.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(hostoffload_package_dir "${CMAKE_INSTALL_DATADIR}/cmake/hostoffload")

install(TARGETS hostoffload EXPORT hostoffload FILE_SET HEADERS)
install(DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}/include/hostoffload/virtual_gpu"
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/hostoffload")
install(EXPORT hostoffload NAMESPACE hostoffload:: FILE hostoffload-targets.cmake
        DESTINATION "${hostoffload_package_dir}")

configure_package_config_file(
  "${CMAKE_CURRENT_LIST_DIR}/hostoffload-config.cmake.in" "${CMAKE_CURRENT_BINARY_DIR}/hostoffload-config.cmake"
  INSTALL_DESTINATION "${hostoffload_package_dir}" PATH_VARS CMAKE_INSTALL_INCLUDEDIR)
# Before 1.0 every minor version may change the interface.
write_basic_package_version_file("${CMAKE_CURRENT_BINARY_DIR}/hostoffload-config-version.cmake"
                                 COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/hostoffload-config.cmake"
              "${CMAKE_CURRENT_BINARY_DIR}/hostoffload-config-version.cmake"
              "${CMAKE_CURRENT_LIST_DIR}/cuda_headers.cmake"
        DESTINATION "${hostoffload_package_dir}")
install(FILES "${CMAKE_CURRENT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
