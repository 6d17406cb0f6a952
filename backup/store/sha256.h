// SHA-256 and HMAC-SHA-256, by OpenSSL. The functions throw std::bad_alloc if OpenSSL fails.
#pragma once

#include <memory>
#include <string>
#include <string_view>

struct evp_md_ctx_st;

namespace maxsim::backup {

// Computes SHA-256 over a stream of bytes. Not thread-safe.
class Sha256 {
 public:
  Sha256();
  void Update(std::string_view bytes);
  // Returns the hash as 64 lower-case hex digits, and resets the object for the next stream of bytes.
  std::string TakeHex();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

// Returns the SHA-256 of the bytes as 64 lower-case hex digits.
std::string Sha256Hex(std::string_view bytes);

// Returns the 32 bytes of HMAC-SHA-256.
std::string HmacSha256(std::string_view key, std::string_view bytes);

// Returns the bytes as lower-case hex digits, two per byte.
std::string Hex(std::string_view bytes);

}  // namespace maxsim::backup
