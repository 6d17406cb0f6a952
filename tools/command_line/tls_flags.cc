#include "tools/command_line/tls_flags.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace maxsim::command_line {

absl::Status NameTlsFlag(const absl::Status& status) {
  constexpr std::pair<absl::string_view, absl::string_view> kFlags[] = {
      {"tls.ca_file:", "--tls-ca:"}, {"tls.cert_file:", "--tls-cert:"}, {"tls.key_file:", "--tls-key:"}};
  absl::string_view rest = status.message();
  for (const auto& [option, flag] : kFlags) {
    if (absl::ConsumePrefix(&rest, option)) return absl::Status(status.code(), absl::StrCat(flag, rest));
  }
  return status;
}

}  // namespace maxsim::command_line
