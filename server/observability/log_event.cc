#include "server/observability/log_event.h"

namespace maxsim::log {
namespace {

// Appends a value without separator characters, since a separator in the value would begin another field.
void AppendValue(std::string_view text, std::string& payload) {
  for (const char letter : text) payload += letter >= kGroupSeparator && letter <= kUnitSeparator ? ' ' : letter;
}

std::string Payload(std::string_view message, std::initializer_list<Field> fields) {
  std::string payload;
  AppendValue(message, payload);
  for (const Field& field : fields) {
    payload += kRecordSeparator;
    payload += field.key;
    payload += kUnitSeparator;
    if (!field.value.is_quoted()) payload += kUnitSeparator;
    AppendValue(field.value.text(), payload);
  }
  return payload;
}

bool IsDigit(char letter) { return letter >= '0' && letter <= '9'; }

// Removes the digits at the front of `text`, and returns whether there were any.
bool TakeDigits(std::string_view& text) {
  const size_t before = text.size();
  while (!text.empty() && IsDigit(text.front())) text.remove_prefix(1);
  return text.size() != before;
}

bool TakeLetter(std::string_view& text, char letter) {
  if (text.empty() || text.front() != letter) return false;
  text.remove_prefix(1);
  return true;
}

// Returns whether the text is a number as JSON (RFC 8259) writes it.
bool IsJsonNumber(std::string_view text) {
  TakeLetter(text, '-');
  if (!TakeLetter(text, '0') && !TakeDigits(text)) return false;
  if (TakeLetter(text, '.') && !TakeDigits(text)) return false;
  if (TakeLetter(text, 'e') || TakeLetter(text, 'E')) {
    if (!TakeLetter(text, '+')) TakeLetter(text, '-');
    if (!TakeDigits(text)) return false;
  }
  return text.empty();
}

void Send(spdlog::level::level_enum level, const std::string& payload) {
  spdlog::default_logger_raw()->log(level, spdlog::string_view_t(payload.data(), payload.size()));
}

}  // namespace

Value Value::Number(std::string text) {
  Value value(std::move(text));
  value.is_quoted_ = !IsJsonNumber(value.text_);
  return value;
}

void Write(spdlog::level::level_enum level, std::string_view message, std::initializer_list<Field> fields) {
  if (spdlog::should_log(level)) Send(level, Payload(message, fields));
}

void WriteTable(spdlog::level::level_enum level, std::string_view message, std::initializer_list<Field> fields,
                std::string_view table) {
  if (!spdlog::should_log(level)) return;
  std::string payload = Payload(message, fields);
  payload += kGroupSeparator;
  AppendValue(table, payload);
  Send(level, payload);
}

}  // namespace maxsim::log
