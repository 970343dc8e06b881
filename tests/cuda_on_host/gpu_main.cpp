// The tests of the kernels on a GPU. Without one they are skipped: exit code 77.
#include <gtest/gtest.h>

#include <cstdio>

#include "managed_memory.hpp"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status != cudaSuccess || devices == 0) {
    std::printf("skipped: no GPU: %s\n", cudaGetErrorString(status));
    return 77;
  }
  return RUN_ALL_TESTS();
}
