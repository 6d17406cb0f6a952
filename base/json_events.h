// The base class of the event parsers for untrusted JSON. It uses the event interface of nlohmann's parser, which does
// not recurse on the stack; the library's other interfaces do not take linear time for every text. This class adds a
// limit of the nesting depth, refuses NUL bytes (the parser would take one as the end of the text), regularly checks
// whether to stop, and returns the first error as a status. A subclass builds its result from the events, and allocates
// nothing for the parts that it does not need.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "base/stop.h"
#include "base/text.h"

namespace maxsim {

class JsonEvents {
 public:
  virtual ~JsonEvents() = default;

  // Parses the whole text. Call it only once. Returns INVALID_ARGUMENT with a description of the error; for malformed
  // JSON it includes line and column. Calls `stop` (may be null) before every kStopBytes of the text, even within
  // strings and white space. If `stop` fails, ends and returns its error.
  absl::Status Parse(std::string_view text, const StopCheck& stop = nullptr);

 protected:
  // Says whether error messages may quote the text.
  enum class Text {
    kShown,   // error messages may quote it
    kSecret,  // error messages must not quote it: a caller may have named a file that it must not read
  };

  explicit JsonEvents(int max_depth, Text text = Text::kShown) : max_depth_(max_depth), shown_(text) {}

  // Parsing this many bytes takes some milliseconds.
  static constexpr size_t kStopBytes = size_t{64} << 10;

  // Returns the number of open containers: 1 inside the outermost one.
  int depth() const { return depth_; }

  // Returns how many bytes of the text the parser has read. In the start and end events of a container, these include
  // the container's bracket.
  size_t position() const { return static_cast<size_t>(next_ - text_.data()); }

  // Returns true if the text is not JSON, and false if a subclass refused it.
  bool malformed() const { return malformed_; }

  // Records the error and stops the parser.
  bool Fail(std::string_view message) { return Fail(absl::InvalidArgumentError(std::string(message))); }
  bool Fail(absl::Status error) {
    if (error_.ok()) error_ = std::move(error);
    return false;
  }

  // Called for a scalar value whose own event below is not overridden. Accepts every value by default.
  virtual bool Value(std::string_view kind) { return true; }
  virtual bool OnBool(bool value) { return Value("a boolean"); }
  virtual bool OnInteger(int64_t value) { return Value("an integer"); }
  virtual bool OnLargeInteger(uint64_t value) { return OnFloat(static_cast<double>(value)); }  // beyond INT64_MAX
  virtual bool OnFloat(double value) { return Value("a number that is not a 64-bit integer"); }
  virtual bool OnString(std::string& value) { return Value("a string"); }
  virtual bool OnStartObject() { return true; }
  virtual bool OnKey(std::string& key) { return true; }
  virtual bool OnEndObject() { return true; }
  virtual bool OnStartArray() { return true; }
  virtual bool OnEndArray() { return true; }
  // Called if the text is nested deeper than `max_depth`.
  virtual bool FailTooDeep(int max_depth) { return Fail(Cat("JSON nested deeper than ", max_depth, " levels")); }

 private:
  struct Byte;
  struct Handler;

  // Gives the parser the next bytes of the text. Returns false if there are none, or if the parser must stop.
  bool NextSlice();

  bool Enter() { return ++depth_ <= max_depth_ || FailTooDeep(max_depth_); }

  const int max_depth_;
  std::string_view text_;
  const StopCheck* stop_ = nullptr;
  const char* next_ = nullptr;
  const char* slice_end_ = nullptr;  // the parser may read up to here
  bool malformed_ = false;
  const Text shown_;
  int depth_ = 0;
  absl::Status error_;
};

}  // namespace maxsim
