#include "base/json_events.h"

#include <algorithm>
#include <iterator>

#include "nlohmann/json.hpp"

namespace maxsim {

using Json = nlohmann::json;

// An iterator over the text, for the parser. It is at the end when the text ends, or when `stop` or an error ends the
// parsing.
struct JsonEvents::Byte {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  reference operator*() const { return *events->next_; }
  Byte& operator++() {
    ++events->next_;
    return *this;
  }
  // The parser compares an iterator only with the end. The comparison may move on to the next slice of the text.
  bool operator!=(const Byte&) const { return events->next_ != events->slice_end_ || events->NextSlice(); }
  bool operator==(const Byte& end) const { return !(*this != end); }

  JsonEvents* events = nullptr;
};

// The parser calls these functions.
struct JsonEvents::Handler {
  bool null() { return events->Value("null"); }
  bool boolean(bool value) { return events->OnBool(value); }
  bool number_integer(Json::number_integer_t value) { return events->OnInteger(value); }
  bool number_unsigned(Json::number_unsigned_t value) {
    if (value > static_cast<uint64_t>(INT64_MAX)) return events->OnLargeInteger(value);
    return events->OnInteger(static_cast<int64_t>(value));
  }
  bool number_float(Json::number_float_t value, const std::string& text) { return events->OnFloat(value); }
  bool string(std::string& value) { return events->OnString(value); }
  bool binary(Json::binary_t& value) { return events->Fail("binary value"); }
  bool start_object(size_t) { return events->Enter() && events->OnStartObject(); }
  bool key(std::string& value) { return events->OnKey(value); }
  bool end_object() {
    --events->depth_;
    return events->OnEndObject();
  }
  bool start_array(size_t) { return events->Enter() && events->OnStartArray(); }
  bool end_array() {
    --events->depth_;
    return events->OnEndArray();
  }
  bool parse_error(size_t position, const std::string& last_token, const Json::exception& error) {
    // The parser's own message has this form: "[json.exception.parse_error.101] parse error at line 1, column 2:
    // ...".
    std::string_view what = error.what();
    if (const size_t bracket = what.find("] "); bracket != std::string_view::npos) what.remove_prefix(bracket + 2);
    if (events->shown_ == Text::kSecret) what = what.substr(0, what.find(':'));  // the rest quotes the text
    constexpr size_t kLongestQuote = 300;  // the message quotes the offending token, which may be anything
    events->malformed_ = events->error_.ok();
    return events->Fail(Cat("malformed JSON: ", Printable(what, kLongestQuote)));
  }

  JsonEvents* events;
};

absl::Status JsonEvents::Parse(std::string_view text, const StopCheck& stop) {
  if (text.find('\0') != std::string_view::npos) {
    malformed_ = true;
    return absl::InvalidArgumentError("a NUL byte in JSON text");
  }
  text_ = text;
  next_ = slice_end_ = text.data();
  stop_ = &stop;
  Handler handler{this};
  const bool done = Json::sax_parse(Byte{this}, Byte{}, &handler);
  if (!error_.ok()) return error_;
  if (!done) return absl::InvalidArgumentError("malformed JSON");
  return absl::OkStatus();
}

bool JsonEvents::NextSlice() {
  const size_t left = text_.size() - position();
  if (left == 0 || !error_.ok()) return false;
  if (*stop_ != nullptr) error_ = (*stop_)();
  slice_end_ += std::min(kStopBytes, left);
  return error_.ok();
}

}  // namespace maxsim
