// The base of the event parsers for JSON from outside. nlohmann's parser does not recurse on the stack, and of its
// interfaces only the one of events takes linear time for every text. This base adds what the formats here need: a
// limit of nesting, refusal of NUL bytes (the parser would take one as the end of the text), regular calls that ask
// whether to stop, and the first error as a status. A subclass builds its result from the events, and so decides what
// is allocated: nothing, for parts that it does not keep.
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

  // Parses the whole text, once. INVALID_ARGUMENT says what is wrong, and for malformed JSON in which line and column.
  // Calls `stop` (may be null) before every kStopBytes of the text, within strings and white space too. Its error ends
  // the parser and is returned.
  absl::Status Parse(std::string_view text, const StopCheck& stop = nullptr);

 protected:
  // Says whether errors may show what was parsed.
  enum class Text {
    kShown,   // the reader of the error may see the text
    kSecret,  // the text may come from any file, because a caller can name a wrong one
  };

  explicit JsonEvents(int max_depth, Text text = Text::kShown) : max_depth_(max_depth), shown_(text) {}

  // These bytes take some milliseconds to parse.
  static constexpr size_t kStopBytes = size_t{64} << 10;

  // Returns the number of containers that are open: 1 inside the outermost one.
  int depth() const { return depth_; }

  // Returns the bytes of the text that the parser has taken; in the events of a container, up to and with the bracket
  // that they are about.
  size_t position() const { return static_cast<size_t>(next_ - text_.data()); }

  // Returns true when the error is that the text is no JSON, rather than what a subclass refused.
  bool malformed() const { return malformed_; }

  // Records the error and stops the parser.
  bool Fail(std::string_view message) { return Fail(absl::InvalidArgumentError(std::string(message))); }
  bool Fail(absl::Status error) {
    if (error_.ok()) error_ = std::move(error);
    return false;
  }

  // Takes a scalar value that no specific event takes. Every value is accepted by default.
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
  // Records that the text is nested deeper than `max_depth`.
  virtual bool FailTooDeep(int max_depth) { return Fail(Cat("JSON nested deeper than ", max_depth, " levels")); }

 private:
  struct Byte;
  struct Handler;

  // Lets the parser have the next bytes of the text; false if there are none, or it must end.
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
