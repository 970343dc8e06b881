# weft::libtorch: libtorch 2.11.0 for CPU programs, from WEFT_LIBTORCH (cache or environment) or the folder that
# packaging/bootstrap fills. libtorch's own CMake package is not used: it asks for a CUDA toolkit.
set(WEFT_TORCH_VERSION 2.11.0)
if(NOT WEFT_LIBTORCH)
  if(DEFINED ENV{WEFT_LIBTORCH})
    set(weft_libtorch_default $ENV{WEFT_LIBTORCH})
  elseif(DEFINED ENV{WEFT_CACHE})
    set(weft_libtorch_default $ENV{WEFT_CACHE}/libtorch-${WEFT_TORCH_VERSION})
  elseif(DEFINED ENV{XDG_CACHE_HOME})
    set(weft_libtorch_default $ENV{XDG_CACHE_HOME}/weft/libtorch-${WEFT_TORCH_VERSION})
  else()
    set(weft_libtorch_default $ENV{HOME}/.cache/weft/libtorch-${WEFT_TORCH_VERSION})
  endif()
endif()
set(WEFT_LIBTORCH ${weft_libtorch_default} CACHE PATH "Folder of libtorch ${WEFT_TORCH_VERSION} with lib/ and include/")

set(weft_torch_version_header ${WEFT_LIBTORCH}/include/torch/headeronly/version.h)
if(NOT EXISTS ${weft_torch_version_header})
  set(weft_torch_version_header ${WEFT_LIBTORCH}/include/torch/csrc/api/include/torch/version.h)
endif()
if(NOT EXISTS ${weft_torch_version_header})
  message(FATAL_ERROR "no libtorch in WEFT_LIBTORCH=${WEFT_LIBTORCH}; run packaging/bootstrap, or set WEFT_LIBTORCH")
endif()
file(STRINGS ${weft_torch_version_header} weft_torch_version_lines REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
string(REGEX REPLACE "[^0-9;]" "" weft_torch_version "${weft_torch_version_lines}")
string(REPLACE ";" "." weft_torch_version "${weft_torch_version}")
if(NOT weft_torch_version STREQUAL WEFT_TORCH_VERSION)
  message(FATAL_ERROR
    "libtorch ${weft_torch_version} in ${WEFT_LIBTORCH}, but Weft needs ${WEFT_TORCH_VERSION}; run packaging/bootstrap, or "
    "set WEFT_LIBTORCH to a folder of that version")
endif()

# What a library of tier `torch` must match exactly.
set(WEFT_TORCH_TAG "torch=${weft_torch_version},cxx11abi=1,dist=gloo")

add_library(weft_libtorch INTERFACE)
add_library(weft::libtorch ALIAS weft_libtorch)
target_include_directories(weft_libtorch SYSTEM INTERFACE
  ${WEFT_LIBTORCH}/include ${WEFT_LIBTORCH}/include/torch/csrc/api/include)
target_compile_definitions(weft_libtorch INTERFACE USE_DISTRIBUTED USE_C10D_GLOO)
target_link_libraries(weft_libtorch INTERFACE weft_torch_fmt ${WEFT_LIBTORCH}/lib/libtorch_cpu.so ${WEFT_LIBTORCH}/lib/libc10.so)
