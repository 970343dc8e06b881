# cmake -DMODULE=<WeftPlugin.cmake> -DFOLDER=<empty> -P: weft_add_plugin refuses a plugin.json.in with an unknown @NAME@
# and names it, and takes one whose names are variables.
set(manifest "{\"id\": \"mine\", \"version\": \"@MY_VERSION@\", \"mail\": \"a@b.org\", \"options\": [@MY_OPTIONS@]}")
file(WRITE ${FOLDER}/plugin.json.in "${manifest}")

# Configures a project with these lines before weft_add_plugin().
function(configure lines status error)
  file(WRITE ${FOLDER}/CMakeLists.txt
    "cmake_minimum_required(VERSION 3.22)\nproject(mine LANGUAGES NONE)\nset(WEFT_INCLUDE_DIR nowhere)\n"
    "include([==[${MODULE}]==])\n${lines}\nweft_add_plugin(mine)\n")
  execute_process(COMMAND ${CMAKE_COMMAND} -S ${FOLDER} -B ${FOLDER}/build
    RESULT_VARIABLE code ERROR_VARIABLE text OUTPUT_QUIET)
  set(${status} ${code} PARENT_SCOPE)
  string(REGEX REPLACE "[ \n]+" " " text "${text}")
  set(${error} "${text}" PARENT_SCOPE)
endfunction()

configure("set(MY_VERSION 1.0.0)" status error)
if(status EQUAL 0 OR NOT error MATCHES "plugin.json.in: there is no variable MY_OPTIONS here")
  message(SEND_ERROR "an unknown variable: status ${status}, ${error}")
endif()
# An empty value is one. The next thing that is wrong with this project is that it has no library.
configure("set(MY_VERSION 1.0.0)\nset(MY_OPTIONS \"\")" status error)
if(error MATCHES "there is no variable" OR NOT error MATCHES "it has no library")
  message(SEND_ERROR "known variables: status ${status}, ${error}")
endif()
