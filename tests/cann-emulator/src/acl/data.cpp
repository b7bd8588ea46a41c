// Data buffers, datasets and tensor descriptions. They only carry values, so they are neither logged nor made to fail.

#include "data.hpp"

#include "export.hpp"

ACL_EXPORT aclDataBuffer* aclCreateDataBuffer(void* address, std::size_t bytes) {
    return new aclDataBuffer{address, bytes};
}

ACL_EXPORT aclError aclDestroyDataBuffer(const aclDataBuffer* buffer) {
    delete buffer;
    return ACL_SUCCESS;
}

ACL_EXPORT void* aclGetDataBufferAddr(const aclDataBuffer* buffer) { return buffer->address; }

ACL_EXPORT aclmdlDataset* aclmdlCreateDataset() { return new aclmdlDataset; }

ACL_EXPORT aclError aclmdlDestroyDataset(const aclmdlDataset* dataset) {
    delete dataset;
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclmdlAddDatasetBuffer(aclmdlDataset* dataset, aclDataBuffer* buffer) {
    dataset->buffers.push_back(buffer);
    return ACL_SUCCESS;
}

ACL_EXPORT aclDataBuffer* aclmdlGetDatasetBuffer(const aclmdlDataset* dataset, std::size_t index) {
    return index < dataset->buffers.size() ? dataset->buffers[index] : nullptr;
}

/// Only models with dynamic outputs describe the tensors of a dataset; none is compiled here.
ACL_EXPORT aclTensorDesc* aclmdlGetDatasetTensorDesc(const aclmdlDataset*, std::size_t) { return nullptr; }

ACL_EXPORT aclTensorDesc* aclCreateTensorDesc(aclDataType type, int rank, const std::int64_t* dims, int /*format*/) {
    return new aclTensorDesc{type, {dims, dims + rank}};
}

ACL_EXPORT void aclDestroyTensorDesc(const aclTensorDesc* tensor) { delete tensor; }

ACL_EXPORT std::size_t aclDataTypeSize(aclDataType type) {
    switch (type) {
        case ACL_INT8:
        case ACL_UINT8:
        case ACL_BOOL: return 1;
        case ACL_FLOAT16:
        case ACL_BF16:
        case ACL_INT16:
        case ACL_UINT16: return 2;
        case ACL_FLOAT:
        case ACL_INT32:
        case ACL_UINT32: return 4;
        case ACL_INT64:
        case ACL_UINT64:
        case ACL_DOUBLE: return 8;
        default: return 0;
    }
}

ACL_EXPORT std::size_t aclGetTensorDescNumDims(const aclTensorDesc* tensor) { return tensor->dims.size(); }

ACL_EXPORT aclError aclGetTensorDescDimV2(const aclTensorDesc* tensor, std::size_t index, std::int64_t* size) {
    if (index >= tensor->dims.size()) return ACL_ERROR_INVALID_PARAM;
    *size = tensor->dims[index];
    return ACL_SUCCESS;
}

ACL_EXPORT std::size_t aclGetTensorDescSize(const aclTensorDesc* tensor) {
    std::size_t size = aclDataTypeSize(tensor->type);
    for (const auto dim : tensor->dims) size *= static_cast<std::size_t>(dim);
    return size;
}

ACL_EXPORT aclError aclSetTensorConst(aclTensorDesc*, void*, std::size_t) { return ACL_SUCCESS; }
