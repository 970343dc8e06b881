// The stream of a launch, for callers that include no CUDA header.
#pragma once

struct CUstream_st;

namespace weft::kernels::cuda {

using Stream = CUstream_st*;  // cudaStream_t

}  // namespace weft::kernels::cuda
