// The result of the library's internal functions: a code of maxsim.h and the text of an error. Not absl::Status,
// because libmaxsim.so must need no library but those of C and C++.
#pragma once

#include <string>
#include <utility>

#include "kernels/library/include/maxsim/maxsim.h"

namespace maxsim::library {

struct [[nodiscard]] Status {
  maxsim_status code = MAXSIM_OK;
  std::string message;  // names the member, the value and what is accepted

  bool ok() const { return code == MAXSIM_OK; }
};

inline Status InvalidArgument(std::string message) { return {MAXSIM_INVALID_ARGUMENT, std::move(message)}; }
inline Status Unsupported(std::string message) { return {MAXSIM_UNSUPPORTED, std::move(message)}; }

}  // namespace maxsim::library
