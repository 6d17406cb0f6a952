// One structured log line: an event's name and its fields. Through spdlog's default logger; what the line looks like is
// decided in logging.h. Its own library, so that the store and the batching log as the server does without linking
// gRPC.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "spdlog/spdlog.h"

namespace maxsim::log {

// `key` is [a-z_]+; the value may be any bytes.
struct Field {
  std::string_view key;
  std::string value;
};

// "message key=value key=value" as text; {"message":..., "key":"value", ...} as JSON. Thread-safe.
void Write(spdlog::level::level_enum level, std::string_view message, std::initializer_list<Field> fields);

// The same with lines for people: as text they follow the event's, indented; as JSON they are the member "table".
void WriteTable(spdlog::level::level_enum level, std::string_view message, std::initializer_list<Field> fields,
                std::string_view table);

// How an event travels through spdlog as one text: message, then RS key US value for each field, then GS table.
inline constexpr char kRecordSeparator = '\x1e';
inline constexpr char kUnitSeparator = '\x1f';
inline constexpr char kGroupSeparator = '\x1d';

}  // namespace maxsim::log
