// The plain data that calls are described with.
#pragma once

#include "abi.hpp"

#include <vector>

struct aclDataBuffer {
    void* address;
    std::size_t bytes;
};

struct aclmdlDataset {
    std::vector<aclDataBuffer*> buffers;
};

struct aclTensorDesc {
    aclDataType type;
    std::vector<std::int64_t> dims;
};
