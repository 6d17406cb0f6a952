// The entry point that libFuzzer calls, for a program with one target.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  maxsim::fuzz::Targets().front().run({reinterpret_cast<const char*>(data), size});
  return 0;
}
