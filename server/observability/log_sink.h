// Writes log lines to a file descriptor through a bounded queue and a thread of its own: logging never waits for the
// reader of the lines.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "spdlog/sinks/sink.h"

namespace maxsim::log {

// Why a line was not written, which is the metric's label.
enum class DropReason {
  kReader,  // The queue was full because nobody reads, or writing failed.
  kRate,    // Clients caused more lines of its kind than are written in a second.
};

// Counts the lines that this process did not write. Thread-safe.
uint64_t DroppedLines(DropReason reason);
void CountDroppedLine(DropReason reason);

// A sink that formats on the calling thread and queues the result. Lines come out whole and in the order in which they
// were logged. When the queue is full the oldest line goes, and the next line that is written says how many went
// ("log_lines_dropped"). Thread-safe.
//
// The writer never sets O_NONBLOCK: that flag belongs to the open file description, which other processes share. It
// polls instead, and writes at most PIPE_BUF bytes at a time, for which a pipe that polls as writable has room.
class DescriptorSink : public spdlog::sinks::sink {
 public:
  struct Options {
    size_t max_queued_bytes = size_t{1} << 20;   // of formatted lines that wait; one line is accepted whatever its size
    std::chrono::milliseconds flush_time{1000};  // the longest that flush and the destructor wait for the reader
  };

  // Starts the writer. The caller owns `fd` and keeps it open while the sink lives.
  DescriptorSink(int fd, const Options& options);
  // Writes what is queued, for flush_time at most, and not at all where an earlier flush waited in vain and nothing was
  // read since. A writer that another process' bytes block in write(2) is left behind.
  ~DescriptorSink() override;
  DescriptorSink(const DescriptorSink&) = delete;
  DescriptorSink& operator=(const DescriptorSink&) = delete;

  void log(const spdlog::details::log_msg& message) override;
  // Waits until everything that was logged before is written, for flush_time at most.
  void flush() override;
  void set_pattern(const std::string& pattern) override;
  void set_formatter(std::unique_ptr<spdlog::formatter> formatter) override;

  // Has the process wait a moment for this sink's writer when it crashes (SIGABRT, SIGSEGV, ...), for signals that
  // nobody handles yet. At most one sink of a process does.
  void FlushOnCrash();

 private:
  struct State;
  static void Write(const std::shared_ptr<State>& state);

  const std::chrono::milliseconds flush_time_;
  const std::shared_ptr<State> state_;  // shared with the writer, which may outlive the sink
};

}  // namespace maxsim::log
