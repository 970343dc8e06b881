# Precompiled headers, which many targets share. A target must have the flags of the header that it takes: the same optimisation, and
# -fPIC even for programs.

# weft_add_pch(NAME HEADER [LIBRARIES ...] [QUICK]): NAME precompiles HEADER, beside which stands its .cpp of one line. QUICK: without
# optimisation, for tests.
function(weft_add_pch name header)
  cmake_parse_arguments(PARSE_ARGV 2 arg "QUICK" "" "LIBRARIES")
  cmake_path(REPLACE_EXTENSION header cpp OUTPUT_VARIABLE source)
  add_library(${name} OBJECT ${source})
  target_link_libraries(${name} PUBLIC ${arg_LIBRARIES})
  if(arg_QUICK)
    weft_quick_to_compile(${name})
  endif()
  target_precompile_headers(${name} PRIVATE ${header})
  # Without time stamps in it, ccache finds it again and a touched system header does not make it useless.
  target_compile_options(${name} PRIVATE -fPIC "SHELL:$<$<CXX_COMPILER_ID:Clang>:-Xclang -fno-pch-timestamp>")
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
endfunction()

# weft_use_pch(TARGET NAME)
function(weft_use_pch target name)
  target_compile_options(${target} PRIVATE -fPIC)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_precompile_headers(${target} REUSE_FROM ${name})
endfunction()

# weft_quick_to_compile(TARGET): tests are compiled without optimisation in every preset. They spend their time in libtorch and
# in the libraries that they test, which are optimised, and compile in a third of the time.
function(weft_quick_to_compile target)
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-O0>)
endfunction()
