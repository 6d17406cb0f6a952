#include "base/process/cores.h"

#include <algorithm>
#include <thread>

namespace maxsim {

int NumCores() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

}  // namespace maxsim
