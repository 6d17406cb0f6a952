// Makes certificates for tests.
#pragma once

#include <string>

namespace maxsim::test {

enum class KeyKind { kP256, kRsa2048 };

struct CertifiedKey {
  std::string certificate;  // PEM
  std::string key;          // PEM, without a pass phrase
};

// Returns a new key and a self-signed certificate for 127.0.0.1 and the host name `name`, valid for two days.
CertifiedKey MakeCertificate(const std::string& name, KeyKind kind = KeyKind::kP256);

}  // namespace maxsim::test
