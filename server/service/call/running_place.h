// Bounds how many calls do work that takes a thread for long.
#pragma once

#include <atomic>

namespace maxsim::service {

// Holds one of `max_running` places for those who work, while there is one. `num_running` must outlive it.
class RunningPlace {
 public:
  RunningPlace(std::atomic<int>* num_running, int max_running)
      : num_running_(num_running), is_held_(++*num_running <= max_running) {}
  ~RunningPlace() { --*num_running_; }
  RunningPlace(const RunningPlace&) = delete;
  RunningPlace& operator=(const RunningPlace&) = delete;

  bool is_held() const { return is_held_; }

 private:
  std::atomic<int>* const num_running_;
  const bool is_held_;
};

}  // namespace maxsim::service
