// A TLS connection to a server on this machine, for tests that send bytes which no HTTP client would send.
#pragma once

#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "tests/support/connections/certificates.h"
#include "tests/support/connections/raw_connection.h"
#include "tests/support/values/eventually.h"

namespace maxsim::test {

struct TlsClientOptions {
  std::string authority = {};  // the accepted issuer, in PEM; "": accepts any server certificate
  CertifiedKey own = {};       // the client's certificate; empty: the client presents none
  int min_version = TLS1_2_VERSION;
  int max_version = TLS1_3_VERSION;
  std::string protocols = {};  // of ALPN, as on the wire; "": offers none
};

// Returns the first bytes of a TLS handshake that a client sends.
inline std::string ClientHello() {
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()), &SSL_CTX_free);
  const std::unique_ptr<SSL, decltype(&SSL_free)> ssl(SSL_new(context.get()), &SSL_free);
  BIO* const written = BIO_new(BIO_s_mem());
  SSL_set_bio(ssl.get(), BIO_new(BIO_s_mem()), written);
  SSL_connect(ssl.get());
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(written, &bytes);
  return std::string(bytes, static_cast<size_t>(size));
}

class TlsConnection {
 public:
  // Connects from 127.0.0.`from` and makes the handshake, which may take 20 s.
  explicit TlsConnection(int port, const TlsClientOptions& options = {}, uint32_t from = 1)
      : raw_(port, from), context_(SSL_CTX_new(TLS_client_method()), &SSL_CTX_free), ssl_(nullptr, &SSL_free) {
    SSL_CTX_set_min_proto_version(context_.get(), options.min_version);
    SSL_CTX_set_max_proto_version(context_.get(), options.max_version);
    if (options.max_version < TLS1_2_VERSION) SSL_CTX_set_security_level(context_.get(), 0);
    if (!options.authority.empty()) Trust(options.authority);
    if (!options.own.certificate.empty()) Show(options.own);
    ssl_.reset(SSL_new(context_.get()));
    if (!options.protocols.empty()) {
      SSL_set_alpn_protos(ssl_.get(), reinterpret_cast<const unsigned char*>(options.protocols.data()),
                          static_cast<unsigned>(options.protocols.size()));
    }
    SSL_set_fd(ssl_.get(), raw_.fd());
    raw_.SetPatience(kTestLimit);
    connected_ = raw_.connected() && SSL_connect(ssl_.get()) == 1;
  }

  // Returns whether the handshake succeeded. A TLS 1.3 server may refuse the client's certificate later, in which case
  // this still returns true.
  bool connected() const { return connected_; }
  SSL* ssl() { return ssl_.get(); }
  RawConnection& raw() { return raw_; }

  // Sends all bytes. Returns false if the server has closed the connection.
  bool Send(std::string_view bytes) {
    return connected_ && SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size())) > 0;
  }

  // Like RawConnection::ReadToEnd. `*closed` also becomes true if the server sends a TLS close_notify.
  std::string ReadToEnd(bool* closed, std::chrono::milliseconds patience = kTestLimit) {
    return Read(std::string::npos, patience, closed);
  }
  std::string ReadAnswers(size_t count, std::chrono::milliseconds patience = kTestLimit) {
    bool closed = false;
    return Read(count, patience, &closed);
  }

  // Sends a close_notify, and leaves the TCP connection open.
  void FinishSending() { SSL_shutdown(ssl_.get()); }

  void Close() { raw_.Close(); }

 private:
  static X509* ReadCertificate(const std::string& pem) {
    BIO* const bio = BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()));
    X509* const certificate = PEM_read_bio_X509(bio, nullptr, nullptr, nullptr);
    BIO_free(bio);
    return certificate;
  }

  void Trust(const std::string& authority) {
    X509* const certificate = ReadCertificate(authority);
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context_.get()), certificate);
    X509_free(certificate);
    SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
  }

  void Show(const CertifiedKey& own) {
    X509* const certificate = ReadCertificate(own.certificate);
    SSL_CTX_use_certificate(context_.get(), certificate);
    X509_free(certificate);
    BIO* const bio = BIO_new_mem_buf(own.key.data(), static_cast<int>(own.key.size()));
    EVP_PKEY* const key = PEM_read_bio_PrivateKey(bio, nullptr, nullptr, nullptr);
    SSL_CTX_use_PrivateKey(context_.get(), key);
    EVP_PKEY_free(key);
    BIO_free(bio);
  }

  std::string Read(size_t count, std::chrono::milliseconds patience, bool* closed) {
    raw_.SetPatience(patience);
    std::string text;
    char buffer[16384];
    *closed = false;
    while (RawConnection::CountAnswers(text) < count) {
      const int size = SSL_read(ssl_.get(), buffer, sizeof(buffer));
      if (size > 0) {
        text.append(buffer, static_cast<size_t>(size));
        continue;
      }
      *closed = SSL_get_error(ssl_.get(), size) != SSL_ERROR_WANT_READ;
      break;
    }
    return text;
  }

  RawConnection raw_;
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_;
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl_;
  bool connected_ = false;
};

}  // namespace maxsim::test
