# weft::libtorch_cuda: libtorch's CUDA libraries with the headers that their users need: those of a CUDA 13 toolkit and of NCCL in
# the version of libtorch. Looked for in CUDA_HOME, /usr/local/cuda, and the folder nvidia/ beside libtorch, which
# `packaging/bootstrap cuda` fills and where pip puts NVIDIA's wheels; the first one that fits is taken. If something is missing,
# weft_cuda_lacks says what.
include(WeftCudaHeaders)
weft_choose_cuda_headers(${WEFT_LIBTORCH})
if(NOT weft_cuda_lacks)
  set(weft_cuda_lacks "${weft_nccl_lacks}")
endif()
list(TRANSFORM weft_toolkits APPEND /lib64 OUTPUT_VARIABLE weft_toolkit_libraries)
find_file(WEFT_CUDART libcudart.so.13 HINTS ${WEFT_LIBTORCH}/lib ${weft_nvidia}/cu13/lib ${weft_toolkit_libraries} NO_DEFAULT_PATH
  DOC "CUDA's runtime library")
foreach(weft_library libtorch_cuda.so libc10_cuda.so)
  if(NOT weft_cuda_lacks AND NOT EXISTS ${WEFT_LIBTORCH}/lib/${weft_library})
    set(weft_cuda_lacks "${weft_library} in ${WEFT_LIBTORCH}/lib (this libtorch is for the CPU alone)")
  endif()
endforeach()
if(NOT weft_cuda_lacks AND NOT WEFT_CUDART)
  set(weft_cuda_lacks "libcudart.so.13")
endif()

if(NOT weft_cuda_lacks)
  add_library(weft_libtorch_cuda INTERFACE)
  add_library(weft::libtorch_cuda ALIAS weft_libtorch_cuda)
  # The toolkit may have an nccl.h of another version.
  target_include_directories(weft_libtorch_cuda SYSTEM INTERFACE ${weft_nccl_include} ${weft_cuda_include})
  target_compile_definitions(weft_libtorch_cuda INTERFACE USE_C10D_NCCL)
  target_link_libraries(weft_libtorch_cuda INTERFACE
    ${WEFT_LIBTORCH}/lib/libtorch_cuda.so ${WEFT_LIBTORCH}/lib/libc10_cuda.so ${WEFT_CUDART})
endif()
