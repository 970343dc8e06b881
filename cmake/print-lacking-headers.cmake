# cmake -DWEFT_LIBTORCH=FOLDER -DWHAT=cuda|nccl -P print-lacking-headers.cmake: prints to stderr what the build would miss of the headers
# of CUDA or of NCCL beside this libtorch. packaging/bootstrap asks this, so that the two cannot differ.
include(${CMAKE_CURRENT_LIST_DIR}/WeftCudaHeaders.cmake)
weft_choose_cuda_headers(${WEFT_LIBTORCH})
if(weft_${WHAT}_lacks)
  message("the ${weft_${WHAT}_lacks}")
endif()
