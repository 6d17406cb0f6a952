// The base class of all documents that the CUDA backend makes, and the cast to it from the public type.
#pragma once

#include "kernels/cuda/runtime/device.h"
#include "kernels/maxsim.h"

namespace maxsim::cuda {

class CudaDocuments;
class HostDocuments;

// Documents that a CUDA backend loaded, or that one of its executors staged. Immutable, as all Documents.
class LoadedDocuments : public Documents {
 public:
  // Casts `documents` to this backend's type; returns null if another backend made them. No other code casts the public
  // type to the backend's own.
  static const LoadedDocuments* From(const Documents& documents) {
    return dynamic_cast<const LoadedDocuments*>(&documents);
  }

  // Returns the device that the documents are scored on. It outlives them.
  const Device* device() const { return device_; }

  // Exactly one of the two functions returns an object: resident() if the documents are in device memory, host() if
  // they are outside of it. The other returns null.
  virtual const CudaDocuments* resident() const { return nullptr; }
  virtual const HostDocuments* host() const { return nullptr; }

 protected:
  explicit LoadedDocuments(const Device* device) : device_(device) {}

 private:
  const Device* device_;
};

}  // namespace maxsim::cuda
