# hostoffload_find(Catch2 catch2): find_package with one line that says what to install.
function(hostoffload_find name debian_package)
  find_package(${name} QUIET GLOBAL)
  if(NOT ${name}_FOUND)
    message(FATAL_ERROR "${name} was not found: apt-get install ${debian_package}")
  endif()
endfunction()
