#include "tools/command_line/tls_flags.h"

#include <string>
#include <string_view>
#include <utility>

#include "client/error_details.h"

namespace maxsim::command_line {

absl::Status NameTlsFlag(const absl::Status& status) {
  constexpr std::pair<std::string_view, std::string_view> kFlags[] = {
      {"tls.ca_file", "--tls-ca"}, {"tls.cert_file", "--tls-cert"}, {"tls.key_file", "--tls-key"}};
  const std::string field = client::FieldOf(status);
  for (const auto& [option, flag] : kFlags) {
    if (field == option) return client::WithField(status, flag);
  }
  return status;
}

}  // namespace maxsim::command_line
