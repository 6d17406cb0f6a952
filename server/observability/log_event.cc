#include "server/observability/log_event.h"

namespace maxsim::log {
namespace {

// A separator within a value would begin a field of its own.
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
    AppendValue(field.value, payload);
  }
  return payload;
}

void Send(spdlog::level::level_enum level, const std::string& payload) {
  spdlog::default_logger_raw()->log(level, spdlog::string_view_t(payload.data(), payload.size()));
}

}  // namespace

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
