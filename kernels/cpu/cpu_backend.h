// Creates a CPU backend that uses a given instruction set. CreateCpuBackend (kernels/maxsim.h) takes its name instead.
#pragma once

#include <memory>

#include "kernels/cpu/loops/isa.h"
#include "kernels/maxsim.h"

namespace maxsim::cpu {

// Creates a backend with `num_threads` >= 1 threads. `isa` must be one of AvailableIsas(), and must outlive the
// backend.
std::unique_ptr<Backend> MakeCpuBackend(const Isa& isa, int num_threads);

}  // namespace maxsim::cpu
