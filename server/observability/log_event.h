// Writes one structured log line: an event's name and its fields. It goes through spdlog's default logger, whose
// formatter (logging.h) decides what the line looks like. This is a library of its own, so that the store and the
// batching can log without linking gRPC.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "spdlog/spdlog.h"

namespace maxsim::log {

// The value of a field: a text of any bytes, a number or a bool. In JSON only texts are quoted.
class Value {
 public:
  // Implicit, so that fields are written {"key", value}.
  Value(std::string text) : text_(std::move(text)) {}
  Value(std::string_view text) : text_(text) {}
  Value(const char* text) : text_(text) {}
  template <typename T>
  requires(std::is_arithmetic_v<T> && !std::is_same_v<T, bool> && !std::is_same_v<T, char>) Value(T number)
      : Value(Number(absl::StrCat(number))) {}
  // A template, so that a pointer is not converted to bool.
  template <typename T>
  requires std::is_same_v<T, bool> Value(T flag) : text_(flag ? "true" : "false"), is_quoted_(false) {}

  // Makes a value from a number that the caller has formatted. In JSON it becomes a text if JSON has no such number
  // ("inf", "nan").
  static Value Number(std::string text);

  const std::string& text() const { return text_; }
  bool is_quoted() const { return is_quoted_; }

 private:
  std::string text_;
  bool is_quoted_ = true;  // in JSON
};

// The key is [a-z_]+.
struct Field {
  std::string_view key;
  Value value;
};

// Writes "message key=value key=value" as text and {"message":..., "key":"value", "key":1, ...} as JSON. Thread-safe.
void Write(spdlog::level::level_enum level, std::string_view message, std::initializer_list<Field> fields);

// Writes an event with lines for people: as text they follow the event's line, indented; as JSON they are the member
// "table".
void WriteTable(spdlog::level::level_enum level, std::string_view message, std::initializer_list<Field> fields,
                std::string_view table);

// An event passes through spdlog as one text: the message, then RS key US value for each field (RS key US US value for
// values that JSON does not quote), then GS table.
inline constexpr char kRecordSeparator = '\x1e';
inline constexpr char kUnitSeparator = '\x1f';
inline constexpr char kGroupSeparator = '\x1d';

}  // namespace maxsim::log
