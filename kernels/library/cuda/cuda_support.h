// Helpers of the CUDA passes of all operators: CUDA errors as statuses, and arrays in the caller's workspace.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "kernels/library/cuda/sort_matches.h"
#include "kernels/library/problem/status.h"

namespace maxsim::library {

// The alignment in bytes of a workspace, and of every array in it.
inline constexpr size_t kWorkspaceAlignment = 256;

// Converts the result of a CUDA call to a status, and clears CUDA's last error. `what` names the call's purpose for the
// message.
inline Status CudaFailure(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return {};
  cudaGetLastError();  // otherwise the host program would take it for the error of its own next launch
  return {MAXSIM_DEVICE_ERROR,
          std::string(what) + ": CUDA: " + cudaGetErrorString(error) + " (" + cudaGetErrorName(error) + ")"};
}

// Returns whether the address is a multiple of `bytes`.
inline bool IsAligned(const void* pointer, size_t bytes) { return reinterpret_cast<uintptr_t>(pointer) % bytes == 0; }

// Takes arrays from the caller's workspace, one after the other. If `memory` is null, only counts their bytes.
class Workspace {
 public:
  explicit Workspace(void* memory) : memory_(static_cast<char*>(memory)) {}

  template <typename T>
  T* Take(int64_t count) {
    T* const array = memory_ == nullptr ? nullptr : reinterpret_cast<T*>(memory_ + bytes_);
    const size_t bytes = static_cast<size_t>(count) * sizeof(T);
    bytes_ += (bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
    return array;
  }
  size_t bytes() const { return bytes_; }

 private:
  char* memory_;
  size_t bytes_ = 0;
};

// Takes the arrays that a sort of matches needs from the workspace. `sort_bytes` is the result of SortBytes, or 0 if
// there are no entries.
inline void TakeMatches(int64_t num_entries, int64_t num_rows, size_t sort_bytes, Workspace* workspace,
                        SortedMatches* matches) {
  matches->sort_bytes = sort_bytes;
  matches->keys = workspace->Take<uint32_t>(num_entries);
  matches->entries = workspace->Take<uint32_t>(num_entries);
  matches->other_keys = workspace->Take<uint32_t>(num_entries);
  matches->other_entries = workspace->Take<uint32_t>(num_entries);
  matches->row_begin = workspace->Take<uint32_t>(num_rows);
  matches->row_end = workspace->Take<uint32_t>(num_rows);
  matches->sort_memory = workspace->Take<char>(static_cast<int64_t>(sort_bytes));
}

}  // namespace maxsim::library
