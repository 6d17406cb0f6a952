#include "tests/gpu/trap.h"

namespace maxsim::test {
namespace {

__global__ void Trap() { __trap(); }

}  // namespace

cudaError_t LaunchTrap(cudaStream_t stream) {
  Trap<<<1, 1, 0, stream>>>();
  return cudaGetLastError();
}

}  // namespace maxsim::test
