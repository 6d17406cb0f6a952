// Functions that make the configuration keys of each kind (count, size, duration and others) from a name, a field of
// Config, limits and a help text. Internal to server/config.
#pragma once

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/units.h"
#include "server/config/keys.h"
#include "server/config/values.h"

namespace maxsim::config::key_kinds {

inline constexpr uint64_t kKi = uint64_t{1} << 10;
inline constexpr uint64_t kMi = uint64_t{1} << 20;
inline constexpr uint64_t kGi = uint64_t{1} << 30;
// The maximum for keys that have no maximum of their own. It keeps values within the signed 64-bit numbers to which
// they are converted.
inline constexpr uint64_t kHuge = uint64_t{1} << 62;

// A field of Config, as a function, so that a key can both read and write it.
template <typename T>
using Field = T& (*)(Config&);

template <typename T>
T Read(Field<T> field, const Config& config) {
  return field(const_cast<Config&>(config));
}

// Returns INVALID_ARGUMENT if `value`, read from `text`, is not from `min` to `max`. `format` writes a limit as users
// write it.
template <typename Format>
absl::Status CheckRange(std::string_view text, uint64_t value, uint64_t min, uint64_t max, Format format) {
  if (value < min) {
    return absl::InvalidArgumentError(absl::StrCat("\"", std::string(text), "\" is less than the limit ", format(min)));
  }
  if (value > max) {
    return absl::InvalidArgumentError(absl::StrCat("\"", std::string(text), "\" is more than the limit ", format(max)));
  }
  return absl::OkStatus();
}

// A number of any integer type, read by `parse` and written by `format`.
template <typename T>
Key Numeric(std::string name, std::string type, Field<T> field, uint64_t min, uint64_t max, std::string help,
            absl::StatusOr<uint64_t> (*parse)(std::string_view), std::string (*format)(uint64_t)) {
  Key key;
  key.name = std::move(name);
  key.type = std::move(type);
  key.range = max < kHuge ? absl::StrCat(format(min), " to ", format(max))
              : min > 0   ? absl::StrCat("at least ", format(min))
                          : "";
  key.help = std::move(help);
  key.set = [=](std::string_view text, Config& config) {
    absl::StatusOr<uint64_t> value = parse(text);
    if (!value.ok()) return value.status();
    if (absl::Status status = CheckRange(text, *value, min, max, format); !status.ok()) return status;
    field(config) = static_cast<T>(*value);
    return absl::OkStatus();
  };
  key.get = [=](const Config& config) { return format(static_cast<uint64_t>(Read(field, config))); };
  return key;
}

template <typename T>
Key Count(std::string name, Field<T> field, uint64_t min, uint64_t max, std::string help) {
  return Numeric(std::move(name), "count", field, min, max, std::move(help), ParseCount, WriteCount);
}

template <typename T>
Key Bytes(std::string name, Field<T> field, uint64_t min, uint64_t max, std::string help) {
  return Numeric(std::move(name), "size", field, min, max, std::move(help), ParseBytes, WriteBytes);
}

inline Key Bool(std::string name, Field<bool> field, std::string help) {
  return {.name = std::move(name),
          .type = "true|false",
          .range = "",
          .help = std::move(help),
          .set =
              [=](std::string_view text, Config& config) {
                absl::StatusOr<bool> value = ParseBool(text);
                if (value.ok()) field(config) = *value;
                return value.status();
              },
          .get = [=](const Config& config) { return Read(field, config) ? "true" : "false"; }};
}

inline Key Duration(std::string name, Field<absl::Duration> field, absl::Duration max, std::string help) {
  return {.name = std::move(name),
          .type = "duration",
          .range = absl::StrCat("0 to ", absl::FormatDuration(max)),
          .help = std::move(help),
          .set =
              [=](std::string_view text, Config& config) {
                absl::StatusOr<absl::Duration> value = ParseDuration(text);
                if (!value.ok()) return value.status();
                if (*value > max) {
                  return absl::InvalidArgumentError(
                      absl::StrCat("\"", std::string(text), "\" is more than the limit ", absl::FormatDuration(max)));
                }
                field(config) = *value;
                return absl::OkStatus();
              },
          .get = [=](const Config& config) { return absl::FormatDuration(Read(field, config)); }};
}

// Makes the key of a part of a whole, a number from `min` to `max`.
inline Key Share(std::string name, Field<double> field, double min, double max, std::string help) {
  return {.name = std::move(name),
          .type = "number",
          .range = absl::StrCat(min, " to ", max),
          .help = std::move(help),
          .set =
              [=](std::string_view text, Config& config) {
                absl::StatusOr<double> value = ParseNumber(text);
                if (!value.ok()) return value.status();
                if (*value < min || *value > max) {
                  return absl::InvalidArgumentError(absl::StrCat("\"", std::string(text), "\" is ",
                                                                 *value < min ? "less" : "more", " than the limit ",
                                                                 *value < min ? min : max));
                }
                field(config) = *value;
                return absl::OkStatus();
              },
          .get = [=](const Config& config) { return absl::StrCat(Read(field, config)); }};
}

inline Key Text(std::string name, std::string type, Field<std::string> field, std::string help) {
  return {.name = std::move(name),
          .type = std::move(type),
          .range = "",
          .help = std::move(help),
          .set =
              [=](std::string_view text, Config& config) {
                field(config) = std::string(text);
                return absl::OkStatus();
              },
          .get = [=](const Config& config) { return Read(field, config); }};
}

inline Key AddressKey(std::string name, Field<std::string> field, bool may_be_empty, std::string help) {
  Key key = Text(std::move(name), "host:port", field, std::move(help));
  key.set = [=](std::string_view text, Config& config) {
    if (!(text.empty() && may_be_empty)) {
      if (absl::StatusOr<Address> address = ParseAddress(text); !address.ok()) return address.status();
    }
    field(config) = std::string(text);
    return absl::OkStatus();
  };
  return key;
}

// Makes a key whose value is the name of a gRPC metadata entry with a text value.
inline Key MetadataKey(std::string name, Field<std::string> field, std::string help) {
  Key key = Text(std::move(name), "name", field, std::move(help));
  key.set = [=](std::string_view text, Config& config) {
    if (text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-_.") != std::string_view::npos ||
        text.substr(0, 5) == "grpc-" || (text.size() >= 4 && text.substr(text.size() - 4) == "-bin")) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", std::string(text),
                       "\" is not a metadata key: a-z, 0-9, - _ . without -bin at the end or grpc- at the beginning"));
    }
    field(config) = std::string(text);
    return absl::OkStatus();
  };
  return key;
}

// All instruction sets of the CPU backend (isa.cc), whatever this machine has.
inline constexpr std::array<const char*, 9> kIsas = {"amx",      "avx512bf16", "avx512vnni", "avx512",  "avx2",
                                                     "neoni8mm", "neondot",    "neon",       "portable"};

// Makes the key of one of kIsas; an empty value takes the best.
inline Key IsaKey(std::string name, Field<std::string> field, std::string help) {
  Key key = Text(std::move(name), "name", field, std::move(help));
  key.set = [=](std::string_view text, Config& config) {
    if (!text.empty() && std::find(kIsas.begin(), kIsas.end(), text) == kIsas.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", std::string(text), "\" is not one of ", absl::StrJoin(kIsas, ", ")));
    }
    field(config) = std::string(text);
    return absl::OkStatus();
  };
  return key;
}

// Makes the key of one of `names`; `values[i]` is what names[i] stands for.
template <typename T>
Key Choice(std::string name, const std::vector<std::string>& names, const std::vector<T>& values, Field<T> field,
           std::string help) {
  Key key;
  key.name = std::move(name);
  key.type = absl::StrJoin(names, "|");
  key.help = std::move(help);
  key.set = [=](std::string_view text, Config& config) {
    for (size_t i = 0; i < names.size(); ++i) {
      if (names[i] != text) continue;
      field(config) = values[i];
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        absl::StrCat("\"", std::string(text), "\" is not one of ", absl::StrJoin(names, ", ")));
  };
  key.get = [=](const Config& config) {
    const T value = Read(field, config);
    for (size_t i = 0; i < names.size(); ++i) {
      if (values[i] == value) return names[i];
    }
    return std::string();
  };
  return key;
}

inline Key StringList(std::string name, Field<std::vector<std::string>> field, std::string help) {
  return {.name = std::move(name),
          .type = "list of paths",
          .range = "",
          .help = std::move(help),
          .is_list = true,
          .set =
              [=](std::string_view text, Config& config) {
                field(config) = absl::StrSplit(std::string(text), ',', absl::SkipEmpty());
                return absl::OkStatus();
              },
          .get = [=](const Config& config) { return absl::StrJoin(Read(field, config), ","); }};
}

inline Key NameList(std::string name, Field<std::vector<std::string>> field, std::string help) {
  Key key = StringList(std::move(name), field, std::move(help));
  key.type = "list of names";
  key.set = [=](std::string_view text, Config& config) {
    std::vector<std::string> names = absl::StrSplit(std::string(text), ',', absl::SkipEmpty());
    for (const std::string& each : names) {
      if (each == "*" || each.find_first_of(":/* ") == std::string::npos) continue;
      return absl::InvalidArgumentError(absl::StrCat("\"", each, "\" is not a name without scheme and port, or *"));
    }
    field(config) = std::move(names);
    return absl::OkStatus();
  };
  return key;
}

inline Key DevicesKey(std::string name, Field<std::vector<int>> field, std::string help) {
  return {.name = std::move(name),
          .type = "list of numbers|all",
          .range = absl::StrCat("numbers 0 to ", kMaxDeviceNumber),
          .help = std::move(help),
          .is_list = true,
          .set =
              [=](std::string_view text, Config& config) {
                absl::StatusOr<std::vector<int>> numbers = ParseDevices(text);
                if (numbers.ok()) field(config) = *numbers;
                return numbers.status();
              },
          .get = [=](const Config& config) { return FormatDevices(Read(field, config)); }};
}

}  // namespace maxsim::config::key_kinds
