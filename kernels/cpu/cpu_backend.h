// Makes a CPU backend of one instruction set; CreateCpuBackend (kernels/maxsim.h) chooses it by name.
#pragma once

#include <memory>

#include "kernels/cpu/loops/isa.h"
#include "kernels/maxsim.h"

namespace maxsim::cpu {

// Makes a backend of `num_threads` >= 1 threads. This machine must be able to run `isa`, which must outlive the
// backend.
std::unique_ptr<Backend> MakeCpuBackend(const Isa& isa, int num_threads);

}  // namespace maxsim::cpu
