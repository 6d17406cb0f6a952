#include "tools/command_line/server_target.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace maxsim::command_line {
namespace {

constexpr char kDefaultPort[] = ":7070";

absl::Status CheckPort(const std::string& text) {
  const std::string port = text.substr(text.rfind(':') + 1);
  int number = 0;
  if (absl::SimpleAtoi(port, &number) && number >= 1 && number <= 65535) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" has port ", port, "; must be 1 to 65535"));
}

}  // namespace

absl::StatusOr<std::string> ServerTarget(const std::string& text) {
  constexpr absl::string_view kSchemes[] = {"dns:", "unix:", "unix-abstract:", "ipv4:", "ipv6:", "xds:"};
  for (const absl::string_view scheme : kSchemes) {
    if (absl::StartsWith(text, scheme)) return text;
  }
  if (text.empty() || text.front() == ':' || text.back() == ':' || text.find('/') != std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" is not HOST:PORT"));
  }
  const bool has_port = text.front() == '[' ? text.back() != ']' : text.find(':') != std::string::npos;
  if (!has_port) return text + kDefaultPort;
  if (absl::Status status = CheckPort(text); !status.ok()) return status;
  return text;
}

std::string TakeServerTarget(std::string& text) {
  absl::StatusOr<std::string> target = ServerTarget(text);
  if (!target.ok()) return std::string(target.status().message());
  text = *std::move(target);
  return "";
}

}  // namespace maxsim::command_line
