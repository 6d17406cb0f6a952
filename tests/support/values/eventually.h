// Waits for outcomes in tests. Tests wait for an outcome and not for a time, so they do not depend on the speed of the
// machine. The limit only ends a test that would otherwise hang.
#pragma once

#include <chrono>
#include <thread>

namespace maxsim::test {

// The longest wait for an outcome. It is less than CTest's default limit of 900 s (cmake/MaxsimTesting.cmake), so that
// the test itself can report which wait failed.
inline constexpr std::chrono::seconds kTestLimit{240};

// Polls until `condition` holds. Returns false if it does not within kTestLimit.
template <typename Condition>
bool Eventually(Condition condition) {
  const auto end = std::chrono::steady_clock::now() + kTestLimit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace maxsim::test
