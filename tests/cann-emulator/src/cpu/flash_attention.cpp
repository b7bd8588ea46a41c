// softmax(q k^T * scale_value) v for each head, as CANN's aclnnPromptFlashAttentionV3 documents it without masks:
// `sparse_mode` 0 and no mask means that pre_tokens and next_tokens are ignored. Inputs and outputs are f16, everything
// between is f32. What CANN refuses has been refused when the graph was built (ge/rules.cpp).

#include "flash_attention.hpp"

#include "../onnx/model.hpp"
#include "half.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace cpu {
namespace {

using onnx::Shape;

struct Attributes {
    std::int64_t heads, key_heads;
    float scale;
    std::string layout;
};

/// Where the rows of a head lie in a tensor.
struct Rows {
    std::size_t batches, length, width;                      // width of one head
    std::size_t batch_stride, row_stride, head_stride;

    Rows(const Shape& shape, const std::string& layout, std::int64_t heads) {
        const auto dim = [&](std::size_t i) { return static_cast<std::size_t>(shape[i]); };
        const auto count = static_cast<std::size_t>(heads);
        batches = dim(0);
        if (layout == "BNSD") {
            length = dim(2);
            width = dim(3);
            row_stride = width;
            head_stride = length * width;
        } else {  // BSH, BSND: the same memory
            length = dim(1);
            width = layout == "BSH" ? dim(2) / count : dim(3);
            row_stride = count * width;
            head_stride = width;
        }
        batch_stride = length * count * width;
    }

    std::size_t start(std::size_t batch, std::size_t head) const { return batch * batch_stride + head * head_stride; }
};

struct Tensor {
    std::uint16_t* data;
    Shape shape;
};

Tensor tensor_of(const ort::Api& api, const OrtValue* value) {
    Tensor tensor;
    void* data;
    ort::check(api, api.GetTensorMutableData(const_cast<OrtValue*>(value), &data));
    tensor.data = static_cast<std::uint16_t*>(data);
    const auto type = ort::make(api, api.GetTensorTypeAndShape, api.ReleaseTensorTypeAndShapeInfo, value);
    std::size_t rank;
    ort::check(api, api.GetDimensionsCount(type.get(), &rank));
    tensor.shape.resize(rank);
    ort::check(api, api.GetDimensions(type.get(), tensor.shape.data(), rank));
    return tensor;
}

/// One head of one batch entry.
struct Head {
    const std::uint16_t *query, *key, *value;
    std::uint16_t* out;
};

void attend(const Head& head, const Rows& q, const Rows& kv, float scale) {
    const auto width = q.width;
    // Keys lie transposed so that the loop over them is the inner one, which compilers turn into vectors.
    std::vector<float> keys(width * kv.length), values(kv.length * width), scores(kv.length), sum(width);
    for (std::size_t j = 0; j < kv.length; ++j) {
        for (std::size_t d = 0; d < width; ++d) {
            keys[d * kv.length + j] = half::to_float(head.key[j * kv.row_stride + d]);
            values[j * width + d] = half::to_float(head.value[j * kv.row_stride + d]);
        }
    }
    for (std::size_t i = 0; i < q.length; ++i) {
        std::fill(scores.begin(), scores.end(), 0.0f);
        for (std::size_t d = 0; d < width; ++d) {
            const float factor = half::to_float(head.query[i * q.row_stride + d]) * scale;
            const float* row = &keys[d * kv.length];
            for (std::size_t j = 0; j < kv.length; ++j) scores[j] += factor * row[j];
        }
        const float largest = *std::max_element(scores.begin(), scores.end());
        float total = 0;
        std::fill(sum.begin(), sum.end(), 0.0f);
        for (std::size_t j = 0; j < kv.length; ++j) {
            const float weight = std::exp(scores[j] - largest);
            total += weight;
            const float* row = &values[j * width];
            for (std::size_t d = 0; d < width; ++d) sum[d] += weight * row[d];
        }
        for (std::size_t d = 0; d < width; ++d) head.out[i * q.row_stride + d] = half::from_float(sum[d] / total);
    }
}

void compute(const ort::Api& api, const Attributes& attributes, OrtKernelContext* context) {
    Tensor inputs[3];
    for (std::size_t i = 0; i < 3; ++i) {
        const OrtValue* value;
        ort::check(api, api.KernelContext_GetInput(context, i, &value));
        inputs[i] = tensor_of(api, value);
    }
    OrtValue* out_value;
    const auto& shape = inputs[0].shape;
    ort::check(api, api.KernelContext_GetOutput(context, 0, shape.data(), shape.size(), &out_value));
    const Tensor out = tensor_of(api, out_value);

    struct Work {
        const Tensor *inputs, *out;
        Rows q, kv;
        std::size_t heads, group;  // query heads, and how many of them share a key head
        float scale;
    };
    const Work work{inputs,
                    &out,
                    Rows(inputs[0].shape, attributes.layout, attributes.heads),
                    Rows(inputs[1].shape, attributes.layout, attributes.key_heads),
                    static_cast<std::size_t>(attributes.heads),
                    static_cast<std::size_t>(attributes.heads / attributes.key_heads),
                    attributes.scale};
    const auto task = [](void* data, std::size_t index) {
        const auto& work = *static_cast<const Work*>(data);
        const auto batch = index / work.heads, head = index % work.heads;
        const auto q = work.q.start(batch, head), kv = work.kv.start(batch, head / work.group);
        attend({work.inputs[0].data + q, work.inputs[1].data + kv, work.inputs[2].data + kv, work.out->data + q}, work.q,
               work.kv, work.scale);
    };
    ort::check(api, api.KernelContext_ParallelFor(context, task, work.q.batches * work.heads, 0,
                                                  const_cast<Work*>(&work)));
}

Attributes read_attributes(const ort::Api& api, const OrtKernelInfo* info) {
    // Absent attributes have the values that CANN's parser gives them.
    const auto or_default = [&](OrtStatus* status, auto value, auto otherwise) {
        if (!status) return value;
        api.ReleaseStatus(status);
        return otherwise;
    };
    Attributes attributes;
    ort::check(api, api.KernelInfoGetAttribute_int64(info, "num_heads", &attributes.heads));
    char layout[16];
    std::size_t size = sizeof layout;
    ort::check(api, api.KernelInfoGetAttribute_string(info, "input_layout", layout, &size));
    attributes.layout = layout;
    std::int64_t key_heads = 0;
    auto* status = api.KernelInfoGetAttribute_int64(info, "num_key_value_heads", &key_heads);
    key_heads = or_default(status, key_heads, std::int64_t{0});
    attributes.key_heads = key_heads ? key_heads : attributes.heads;
    float scale = 1;
    status = api.KernelInfoGetAttribute_float(info, "scale_value", &scale);
    attributes.scale = or_default(status, scale, 1.0f);
    return attributes;
}

// Exceptions may not leave the functions of the table.
template <class Body>
OrtStatus* guarded(Body body) {
    try {
        body();
        return nullptr;
    } catch (const std::exception& error) {
        return ort::api().CreateStatus(ort::kInvalidGraph, error.what());
    }
}

OrtCustomOp make_operator() {
    OrtCustomOp op{};
    op.version = ort::kApiVersion;
    op.GetName = [](const OrtCustomOp*) { return "NPUPromptFlashAttention"; };
    op.GetExecutionProviderType = [](const OrtCustomOp*) -> const char* { return nullptr; };
    op.GetInputTypeCount = [](const OrtCustomOp*) -> std::size_t { return 3; };
    op.GetOutputTypeCount = [](const OrtCustomOp*) -> std::size_t { return 1; };
    op.GetInputType = op.GetOutputType = [](const OrtCustomOp*, std::size_t) -> int { return onnx::kFloat16; };
    op.GetInputCharacteristic = op.GetOutputCharacteristic = [](const OrtCustomOp*, std::size_t) { return 0; };
    op.GetInputMemoryType = [](const OrtCustomOp*, std::size_t) { return ort::kDefaultMemory; };
    op.GetVariadicInputMinArity = op.GetVariadicOutputMinArity = [](const OrtCustomOp*) { return 1; };
    op.GetVariadicInputHomogeneity = op.GetVariadicOutputHomogeneity = [](const OrtCustomOp*) { return 1; };
    op.GetStartVersion = [](const OrtCustomOp*) { return 1; };
    op.GetEndVersion = [](const OrtCustomOp*) { return std::numeric_limits<int>::max(); };
    op.CreateKernelV2 = [](const OrtCustomOp*, const OrtApi*, const OrtKernelInfo* info, void** kernel) {
        return guarded([&] { *kernel = new Attributes(read_attributes(ort::api(), info)); });
    };
    op.KernelComputeV2 = [](void* kernel, OrtKernelContext* context) {
        return guarded([&] { compute(ort::api(), *static_cast<const Attributes*>(kernel), context); });
    };
    op.KernelDestroy = [](void* kernel) { delete static_cast<Attributes*>(kernel); };
    op.InferOutputShapeFn = [](const OrtCustomOp*, OrtShapeInferContext* context) {
        return guarded([&] {
            const auto& api = ort::api();
            OrtTensorTypeAndShapeInfo* query;  // belongs to the context
            ort::check(api, api.ShapeInferContext_GetInputTypeShape(context, 0, &query));
            ort::check(api, api.ShapeInferContext_SetOutputTypeShape(context, 0, query));
        });
    };
    return op;
}

}  // namespace

void add_flash_attention(const ort::Api& api, OrtSessionOptions* options) {
    static const OrtCustomOp op = make_operator();
    // Sessions refer to the domain, so it lives as long as the process.
    static OrtCustomOpDomain* const domain = [&] {
        auto made = ort::make(api, api.CreateCustomOpDomain, api.ReleaseCustomOpDomain, "");
        ort::check(api, api.CustomOpDomain_Add(made.get(), &op));
        return made.release();
    }();
    ort::check(api, api.AddCustomOpDomain(options, domain));
}

}  // namespace cpu
