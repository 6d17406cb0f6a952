// Makes a CPU backend of one instruction set; CreateCpuBackend (kernels/maxsim.h) chooses it by name.
#pragma once

#include <memory>

#include "kernels/cpu/isa.h"
#include "kernels/maxsim.h"

namespace maxsim::cpu {

// `isa` must be one this machine runs, and must outlive the backend. `num_threads` >= 1.
std::unique_ptr<Backend> MakeCpuBackend(const Isa& isa, int num_threads);

}  // namespace maxsim::cpu
