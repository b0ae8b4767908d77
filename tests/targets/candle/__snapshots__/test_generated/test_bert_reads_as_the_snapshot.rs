//! BertModel, ported from `transformers.models.bert.modeling_bert.BertModel`.

use candle::{DType, Module, Result, Tensor};
use candle_nn::VarBuilder;
use torchport_runtime::{
    check, ensure,
    nn::{self, Activation, Embedding, LayerNorm, Linear},
    ops, Probe,
};

#[derive(Debug, Clone, PartialEq, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    pub vocab_size: usize,
    pub hidden_size: usize,
    pub num_hidden_layers: usize,
    pub num_attention_heads: usize,
    pub intermediate_size: usize,
    pub max_position_embeddings: usize,
    pub type_vocab_size: usize,
    pub layer_norm_eps: f64,
}

struct BertEmbeddings {
    word_embeddings: Embedding,
    token_type_embeddings: Embedding,
    position_embeddings: Embedding,
    layer_norm: LayerNorm,
    position_ids: Tensor,
    token_type_ids: Tensor,
    probe: Probe,
}

impl BertEmbeddings {
    fn new(cfg: &Config, vb: VarBuilder) -> Result<Self> {
        Ok(Self {
            word_embeddings: nn::embedding(
                cfg.vocab_size,
                cfg.hidden_size,
                vb.pp("word_embeddings"),
            )?,
            token_type_embeddings: nn::embedding(
                cfg.type_vocab_size,
                cfg.hidden_size,
                vb.pp("token_type_embeddings"),
            )?,
            position_embeddings: nn::embedding(
                cfg.max_position_embeddings,
                cfg.hidden_size,
                vb.pp("position_embeddings"),
            )?,
            layer_norm: nn::layer_norm(cfg.hidden_size, cfg.layer_norm_eps, vb.pp("LayerNorm"))?,
            position_ids: vb.get_with_hints_dtype(
                (1, cfg.max_position_embeddings),
                "position_ids",
                Default::default(),
                DType::I64,
            )?,
            token_type_ids: vb.get_with_hints_dtype(
                (1, cfg.max_position_embeddings),
                "token_type_ids",
                Default::default(),
                DType::I64,
            )?,
            probe: Probe::new(&vb),
        })
    }
}

impl Module for BertEmbeddings {
    fn forward(&self, input_ids: &Tensor) -> Result<Tensor> {
        check!(self.probe => input_ids);
        let (batch, seq_len) = input_ids.dims2()?;
        let position_ids = self.position_ids.narrow(1, 0, seq_len)?;
        let token_type_embeddings = ops::gather(&self.token_type_ids, 1, &position_ids)?
            .broadcast_as((batch, seq_len))?
            .apply(&self.token_type_embeddings)?;
        let position_embeddings = self.position_embeddings.forward(&position_ids)?;
        check!(
            self.probe,
            (self.word_embeddings.forward(input_ids)? + &token_type_embeddings)?
                .broadcast_add(&position_embeddings)?
                .apply(&self.layer_norm)?
        )
    }
}

struct BertSelfAttention {
    query: Linear,
    key: Linear,
    value: Linear,
    num_attention_heads: usize,
    attention_head_size: usize,
    probe: Probe,
}

impl BertSelfAttention {
    fn new(cfg: &Config, vb: VarBuilder) -> Result<Self> {
        Ok(Self {
            query: nn::linear(cfg.hidden_size, cfg.hidden_size, vb.pp("query"))?,
            key: nn::linear(cfg.hidden_size, cfg.hidden_size, vb.pp("key"))?,
            value: nn::linear(cfg.hidden_size, cfg.hidden_size, vb.pp("value"))?,
            num_attention_heads: cfg.num_attention_heads,
            attention_head_size: cfg.hidden_size / cfg.num_attention_heads,
            probe: Probe::new(&vb),
        })
    }

    fn forward(&self, embedding_output: &Tensor, attention_mask: &Tensor) -> Result<Tensor> {
        check!(self.probe => embedding_output, attention_mask);
        let (batch, seq_len, _) = embedding_output.dims3()?;
        let query_layer = self
            .query
            .forward(embedding_output)?
            .reshape((
                batch,
                seq_len,
                self.num_attention_heads,
                self.attention_head_size,
            ))?
            .transpose(1, 2)?;
        let key_layer = self
            .key
            .forward(embedding_output)?
            .reshape((
                batch,
                seq_len,
                self.num_attention_heads,
                self.attention_head_size,
            ))?
            .transpose(1, 2)?;
        let value_layer = self
            .value
            .forward(embedding_output)?
            .reshape((
                batch,
                seq_len,
                self.num_attention_heads,
                self.attention_head_size,
            ))?
            .transpose(1, 2)?;
        check!(
            self.probe,
            ops::sdpa(
                &query_layer,
                &key_layer,
                &value_layer,
                Some(attention_mask),
                false,
                None,
                false
            )?
            .transpose(1, 2)?
            .flatten_from(2)?
        )
    }
}

struct BertSelfOutput {
    dense: Linear,
    layer_norm: LayerNorm,
    probe: Probe,
}

impl BertSelfOutput {
    fn new(cfg: &Config, vb: VarBuilder) -> Result<Self> {
        Ok(Self {
            dense: nn::linear(cfg.hidden_size, cfg.hidden_size, vb.pp("dense"))?,
            layer_norm: nn::layer_norm(cfg.hidden_size, cfg.layer_norm_eps, vb.pp("LayerNorm"))?,
            probe: Probe::new(&vb),
        })
    }

    fn forward(&self, attention_output: &Tensor, embedding_output: &Tensor) -> Result<Tensor> {
        check!(self.probe => attention_output, embedding_output);
        check!(
            self.probe,
            (self.dense.forward(attention_output)? + embedding_output)?.apply(&self.layer_norm)?
        )
    }
}

struct BertAttention {
    self_: BertSelfAttention,
    output: BertSelfOutput,
    probe: Probe,
}

impl BertAttention {
    fn new(cfg: &Config, vb: VarBuilder) -> Result<Self> {
        Ok(Self {
            self_: BertSelfAttention::new(cfg, vb.pp("self"))?,
            output: BertSelfOutput::new(cfg, vb.pp("output"))?,
            probe: Probe::new(&vb),
        })
    }

    fn forward(&self, embedding_output: &Tensor, attention_mask: &Tensor) -> Result<Tensor> {
        check!(self.probe => embedding_output, attention_mask);
        check!(
            self.probe,
            self.output.forward(
                &self.self_.forward(embedding_output, attention_mask)?,
                embedding_output
            )?
        )
    }
}

struct BertIntermediate {
    dense: Linear,
    intermediate_act_fn: Activation,
    probe: Probe,
}

impl BertIntermediate {
    fn new(cfg: &Config, vb: VarBuilder) -> Result<Self> {
        Ok(Self {
            dense: nn::linear(cfg.hidden_size, cfg.intermediate_size, vb.pp("dense"))?,
            intermediate_act_fn: nn::gelu(vb.pp("intermediate_act_fn")),
            probe: Probe::new(&vb),
        })
    }
}

impl Module for BertIntermediate {
    fn forward(&self, xs: &Tensor) -> Result<Tensor> {
        check!(self.probe => xs);
        check!(
            self.probe,
            self.dense.forward(xs)?.apply(&self.intermediate_act_fn)?
        )
    }
}

struct BertOutput {
    dense: Linear,
    layer_norm: LayerNorm,
    probe: Probe,
}

impl BertOutput {
    fn new(cfg: &Config, vb: VarBuilder) -> Result<Self> {
        Ok(Self {
            dense: nn::linear(cfg.intermediate_size, cfg.hidden_size, vb.pp("dense"))?,
            layer_norm: nn::layer_norm(cfg.hidden_size, cfg.layer_norm_eps, vb.pp("LayerNorm"))?,
            probe: Probe::new(&vb),
        })
    }

    fn forward(&self, xs: &Tensor, self_attention_output: &Tensor) -> Result<Tensor> {
        check!(self.probe => xs, self_attention_output);
        check!(
            self.probe,
            (self.dense.forward(xs)? + self_attention_output)?.apply(&self.layer_norm)?
        )
    }
}

struct BertLayer {
    attention: BertAttention,
    intermediate: BertIntermediate,
    output: BertOutput,
    probe: Probe,
}

impl BertLayer {
    fn new(cfg: &Config, vb: VarBuilder) -> Result<Self> {
        Ok(Self {
            attention: BertAttention::new(cfg, vb.pp("attention"))?,
            intermediate: BertIntermediate::new(cfg, vb.pp("intermediate"))?,
            output: BertOutput::new(cfg, vb.pp("output"))?,
            probe: Probe::new(&vb),
        })
    }

    fn forward(&self, embedding_output: &Tensor, attention_mask: &Tensor) -> Result<Tensor> {
        check!(self.probe => embedding_output, attention_mask);
        let self_attention_output = self.attention.forward(embedding_output, attention_mask)?;
        let ys = self.intermediate.forward(&self_attention_output)?;
        check!(
            self.probe,
            self.output.forward(&ys, &self_attention_output)?
        )
    }
}

struct BertEncoder {
    layer: Vec<BertLayer>,
    probe: Probe,
}

impl BertEncoder {
    fn new(cfg: &Config, vb: VarBuilder) -> Result<Self> {
        Ok(Self {
            layer: (0..cfg.num_hidden_layers)
                .map(|i| BertLayer::new(cfg, vb.pp(format!("layer.{i}"))))
                .collect::<Result<Vec<_>>>()?,
            probe: Probe::new(&vb),
        })
    }

    fn forward(&self, embedding_output: &Tensor, attention_mask: &Tensor) -> Result<Tensor> {
        check!(self.probe => embedding_output, attention_mask);
        let mut hidden_states = embedding_output.clone();
        for layer in &self.layer {
            hidden_states = layer.forward(&hidden_states, attention_mask)?;
        }
        check!(self.probe, hidden_states)
    }
}

struct BertPooler {
    dense: Linear,
    activation: Activation,
    probe: Probe,
}

impl BertPooler {
    fn new(cfg: &Config, vb: VarBuilder) -> Result<Self> {
        Ok(Self {
            dense: nn::linear(cfg.hidden_size, cfg.hidden_size, vb.pp("dense"))?,
            activation: nn::tanh(vb.pp("activation")),
            probe: Probe::new(&vb),
        })
    }
}

impl Module for BertPooler {
    fn forward(&self, xs: &Tensor) -> Result<Tensor> {
        check!(self.probe => xs);
        check!(
            self.probe,
            ops::select(xs, 1, 0)?
                .apply(&self.dense)?
                .apply(&self.activation)?
        )
    }
}

pub struct BertModel {
    embeddings: BertEmbeddings,
    encoder: BertEncoder,
    pooler: BertPooler,
    max_position_embeddings: usize,
    probe: Probe,
}

impl BertModel {
    pub fn new(cfg: &Config, vb: VarBuilder) -> Result<Self> {
        if cfg.num_attention_heads == 0 {
            candle::bail!("`num_attention_heads` is 0");
        }
        Ok(Self {
            embeddings: BertEmbeddings::new(cfg, vb.pp("embeddings"))?,
            encoder: BertEncoder::new(cfg, vb.pp("encoder"))?,
            pooler: BertPooler::new(cfg, vb.pp("pooler"))?,
            max_position_embeddings: cfg.max_position_embeddings,
            probe: Probe::new(&vb),
        })
    }

    pub fn forward(&self, input_ids: &Tensor) -> Result<(Tensor, Tensor)> {
        check!(self.probe => input_ids);
        let (batch, seq_len) = input_ids.dims2()?;
        ensure!(seq_len <= self.max_position_embeddings);
        let ys = Tensor::arange(0i64, seq_len as i64, input_ids.device())?
            .unsqueeze(0)?
            .unsqueeze(1)?
            .unsqueeze(3)?;
        let attention_mask =
            ops::ge_scalar(&ys, 0.0)?.broadcast_as((batch, 1, seq_len, seq_len))?;
        let encoder_outputs = self
            .encoder
            .forward(&self.embeddings.forward(input_ids)?, &attention_mask)?;
        let pooled_output = self.pooler.forward(&encoder_outputs)?;
        check!(self.probe, (encoder_outputs, pooled_output))
    }
}
