#include "server/rpc/worker.h"

#include <utility>

#include "kernels/thread_name.h"

namespace maxsim::rpc {
namespace {

absl::Status Draining() { return absl::UnavailableError("the server is draining"); }

}  // namespace

Worker::Worker() : thread_([this] { Run(); }) {}

Worker::~Worker() {
  Stop();
  thread_.join();
}

void Worker::Post(Task task) {
  {
    std::lock_guard lock(mutex_);
    if (!stopping_) {
      tasks_.push_back(std::move(task));
      wake_.notify_one();
      return;
    }
  }
  task(Draining());
}

void Worker::Stop() {
  std::deque<Task> dropped;
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    dropped = std::exchange(tasks_, {});
  }
  wake_.notify_one();
  for (Task& task : dropped) task(Draining());
}

void Worker::Run() {
  NameThisThread("worker");
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
    if (stopping_) return;
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task(absl::OkStatus());
    task = nullptr;
    lock.lock();
  }
}

}  // namespace maxsim::rpc
