// Calls of triadic.h in the form that their backends use: read from the structures of any version of the header, and
// checked.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/library/include/maxsim/triadic.h"
#include "kernels/library/problem/status.h"
#include "kernels/scalar_type.h"

namespace maxsim::library {

// A call of three-way attention. It borrows the caller's memory.
struct TriadicProblem {
  maxsim_triadic_call call = {};

  ScalarType type() const { return static_cast<ScalarType>(call.type); }
  size_t row_bytes() const { return static_cast<size_t>(call.dim) * SizeOf(type()); }
};

// A call of three-way MaxSim. It borrows the caller's memory.
struct TriadicMaxProblem {
  maxsim_triadic_max_call call = {};

  ScalarType type() const { return static_cast<ScalarType>(call.type); }
  size_t row_bytes() const { return static_cast<size_t>(call.dim) * SizeOf(type()); }
  int64_t num_query_rows() const { return call.num_problems * call.max_queries; }  // padding included, as below
  int64_t num_first_rows() const { return call.num_problems * call.max_first; }
  int64_t num_second_rows() const { return call.num_problems * call.max_second; }
};

// The result that a pass computes for each row of its owner.
enum class TriadicMode {
  kOutput,  // the output, with an online softmax: rows' values * weights * inner values
  kKeys,    // the gradient of a key: rows' keys times gradients of logits times inner keys
  kValues,  // the gradient of a value: rows' values times weights times inner values
};

// One of the three axes of attention. It has a key and a value for each row.
struct TriadicAxis {
  const void* keys = nullptr;     // [num_problems, max_rows, dim]
  const void* values = nullptr;   // [num_problems, max_rows, dim]; of queries: the gradients of the output, or null
  const void* lengths = nullptr;  // [num_problems] or null
  int64_t max_rows = 0;
};

// The roles of the three axes in one pass. Each row of `owner` gets a result from all pairs of rows of the other two
// axes: a pass goes over `rows`, and for each of them over `inner`. `inner` is never the axis of queries, so that
// numbers of a query, such as its lse, belong to a row of `owner` or `rows`.
struct TriadicRoles {
  TriadicAxis owner;
  TriadicAxis rows;
  TriadicAxis inner;
  bool owner_is_query = false;  // otherwise `rows` are the queries
};

// QueriesOwn, FirstOwn and SecondOwn return the roles in which the owner is the axis of queries, of first keys or of
// second keys.
inline TriadicRoles QueriesOwn(const maxsim_triadic_call& call, const void* output_gradients) {
  return {.owner = {call.queries, output_gradients, nullptr, call.num_queries},
          .rows = {call.first_keys, call.first_values, call.first_lengths, call.max_first},
          .inner = {call.second_keys, call.second_values, call.second_lengths, call.max_second},
          .owner_is_query = true};
}
// Like QueriesOwn, but with the second keys as `rows` and the first keys as `inner`, so that products of query and
// second key are rounded, as in SecondOwn.
inline TriadicRoles QueriesOwnSecondRows(const maxsim_triadic_call& call, const void* output_gradients) {
  const TriadicRoles roles = QueriesOwn(call, output_gradients);
  return {.owner = roles.owner, .rows = roles.inner, .inner = roles.rows, .owner_is_query = true};
}
inline TriadicRoles FirstOwn(const maxsim_triadic_call& call, const void* output_gradients) {
  const TriadicRoles roles = QueriesOwn(call, output_gradients);
  return {.owner = roles.rows, .rows = roles.owner, .inner = roles.inner, .owner_is_query = false};
}
inline TriadicRoles SecondOwn(const maxsim_triadic_call& call, const void* output_gradients) {
  const TriadicRoles roles = QueriesOwn(call, output_gradients);
  return {.owner = roles.inner, .rows = roles.owner, .inner = roles.rows, .owner_is_query = false};
}

// Copy the caller's structures and check their numbers. Do not read rows and lengths.
Status ReadTriadic(const maxsim_triadic_call* call, TriadicProblem* problem);
Status ReadTriadicGradients(const TriadicProblem& problem, const maxsim_triadic_gradients* given,
                            maxsim_triadic_gradients* gradients);
Status ReadTriadicMax(const maxsim_triadic_max_call* call, TriadicMaxProblem* problem);
Status ReadTriadicMaxGradients(const TriadicMaxProblem& problem, const maxsim_triadic_max_gradients* given,
                               maxsim_triadic_max_gradients* gradients);

// The passes on the CPU. They also check the lengths and the argmax.
Status CpuTriadic(const TriadicProblem& problem, void* output, float* lse);
Status CpuTriadicBackward(const TriadicProblem& problem, const maxsim_triadic_gradients& gradients);
Status CpuTriadicMax(const TriadicMaxProblem& problem, float* maxima, int32_t* argmax);
Status CpuTriadicMaxBackward(const TriadicMaxProblem& problem, const maxsim_triadic_max_gradients& gradients);

// The passes on the current CUDA device. They enqueue work on the call's stream, without waiting for it or allocating
// memory. In a build without CUDA they return an error.
Status CudaTriadicWorkspaceBytes(const TriadicProblem& problem, int32_t pass, size_t* bytes);
Status CudaTriadic(const TriadicProblem& problem, void* output, float* lse);
Status CudaTriadicBackward(const TriadicProblem& problem, const maxsim_triadic_gradients& gradients);
Status CudaTriadicMaxWorkspaceBytes(const TriadicMaxProblem& problem, int32_t pass, size_t* bytes);
Status CudaTriadicMax(const TriadicMaxProblem& problem, float* maxima, int32_t* argmax);
Status CudaTriadicMaxBackward(const TriadicMaxProblem& problem, const maxsim_triadic_max_gradients& gradients);

}  // namespace maxsim::library
