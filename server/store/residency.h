// Where a collection's token embeddings live while it is served.
#pragma once

#include <optional>
#include <string_view>

namespace maxsim::store {

enum class Residency {
  kAuto,  // gpu on the CUDA backend; on the CPU backend host if the memory budget holds it, else disk
  kGpu,   // device memory
  kHost,  // host memory
  kDisk,  // mapped files, read through the page cache
};

std::string_view Name(Residency residency);  // "auto", "gpu", "host", "disk"
std::optional<Residency> ResidencyFromName(std::string_view name);

}  // namespace maxsim::store
