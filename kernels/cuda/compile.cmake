# cmake -P compile.cmake -- REPORT NVCC ARGUMENT...
# Runs nvcc, whose arguments have -Xptxas -v, and writes what ptxas says about each kernel to REPORT. Fails with nvcc, and if a
# kernel spills registers.
math(EXPR last "${CMAKE_ARGC} - 1")
set(command)
foreach(index RANGE 5 ${last})
  list(APPEND command "${CMAKE_ARGV${index}}")
endforeach()
set(report "${CMAKE_ARGV4}")

execute_process(COMMAND ${command} RESULT_VARIABLE status OUTPUT_VARIABLE said ERROR_VARIABLE said)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "nvcc ends with ${status}:\n${said}")
endif()
file(WRITE "${report}" "${said}")

# A kernel has three lines: its name and architecture, its function properties, the bytes of its stack and of what it spills.
string(REPLACE ";" "," said "${said}")
string(REGEX MATCHALL "entry function '[^']+' for '[^']+'\n[^\n]+\n[^\n]+spill loads" kernels "${said}")
if(NOT kernels)
  message(FATAL_ERROR "ptxas says nothing about registers; is -Xptxas -v among the arguments?\n${said}")
endif()
set(spills)
foreach(kernel IN LISTS kernels)
  if(NOT kernel MATCHES " 0 bytes spill stores, 0 bytes spill loads")
    string(REGEX REPLACE "entry function '([^']+)' for '([^']+)'.*, ([0-9]+ bytes spill stores.*)" "\\1 (\\2): \\3" kernel "${kernel}")
    string(APPEND spills "\n  ${kernel}")
  endif()
endforeach()
if(spills)
  message(FATAL_ERROR "registers spill; give the kernel more of them in __launch_bounds__, or keep less in it:${spills}")
endif()
