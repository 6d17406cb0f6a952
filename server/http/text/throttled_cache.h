// Keeps a text that takes long to make, and makes it again so rarely that this takes at most a tenth of the thread's
// time. Internal to server/http.
#pragma once

#include <chrono>
#include <string>

namespace maxsim::http {

// The class is used by one thread at a time.
class ThrottledCache {
 public:
  // Returns the text of an earlier call, or calls `make` for a new one if the text is older than nine times what
  // `make` took. So `make` takes at most a tenth of the thread's time, however often Get is called.
  template <typename Make>
  const std::string& Get(Make make) {
    const Clock::time_point begin = Clock::now();
    if (begin >= end_) {
      text_ = make();
      const Clock::time_point made = Clock::now();
      end_ = made + 9 * (made - begin);
    }
    return text_;
  }

 private:
  using Clock = std::chrono::steady_clock;

  std::string text_;
  Clock::time_point end_{};  // until when the text is not too old
};

}  // namespace maxsim::http
