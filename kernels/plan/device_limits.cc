#include "kernels/plan/device_limits.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace maxsim {
std::string DeviceLimits::ToString() const {
  return absl::StrCat(num_sms, " multiprocessors, ", shared_bytes_per_block, " bytes of shared memory a block, ",
                      shared_bytes_per_sm, " a multiprocessor");
}

}  // namespace maxsim
