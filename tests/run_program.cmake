# For scripts that test a program: they make FOLDER, put files into it, and call run_program.

macro(make_folder)
  file(REMOVE_RECURSE "${FOLDER}")
  file(MAKE_DIRECTORY "${FOLDER}")
endmacro()

# Runs PROGRAM with ARGUMENTS (separated by |) in FOLDER. The exit code must be EXIT, and what is printed hold EXPECT. A run
# that fails must print one line on standard error, "NAME: …", with EXPECT in it, and leave no file behind; one that succeeds
# prints nothing there.
function(run_program)
  cmake_path(GET PROGRAM FILENAME name)
  file(GLOB before "${FOLDER}/*")
  string(REPLACE "|" ";" arguments "${ARGUMENTS}")
  execute_process(COMMAND "${PROGRAM}" ${arguments} WORKING_DIRECTORY "${FOLDER}"
                  RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE error)
  message("${output}${error}")
  if(NOT code STREQUAL EXIT)
    message(FATAL_ERROR "exit code ${code}, not ${EXIT}")
  endif()
  if(NOT EXIT EQUAL 0)
    if(NOT error MATCHES "^${name}: [^\n]+\n$")
      message(FATAL_ERROR "standard error is not one line")
    endif()
    file(GLOB after "${FOLDER}/*")
    if(NOT before STREQUAL after)
      message(FATAL_ERROR "files were left behind or are missing: ${after}, before: ${before}")
    endif()
    set(output "${error}")
  elseif(NOT error STREQUAL "")
    message(FATAL_ERROR "a run that succeeds prints nothing on standard error when that is no terminal")
  endif()
  string(FIND "${output}" "${EXPECT}" found)
  if(found EQUAL -1)
    message(FATAL_ERROR "\"${EXPECT}\" is missing")
  endif()
endfunction()
