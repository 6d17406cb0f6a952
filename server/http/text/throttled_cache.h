// Keeps a text that costs time to make, for a thread that has everything else to do as well. It is internal to
// server/http.
#pragma once

#include <chrono>
#include <string>

namespace maxsim::http {

// The class is used by one thread at a time.
class ThrottledCache {
 public:
  // Returns the text that `make` makes, or has made. At most a tenth of the thread's time goes into that, however often
  // it is asked: the text may be nine times as old as it takes to make.
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
