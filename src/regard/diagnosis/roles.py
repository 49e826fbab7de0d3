"""What a name means: a parameter of a call, a size of a constructor, the weights of a module."""

from __future__ import annotations

import re

_PARAMETERS: dict[str, str] = {
    "x": "x xs input inputs hiddenstates hiddenstate hidden embeddings embedding embs emb embeds "
    "tokens src "
    "seq sequence data inp features inputtensor xin h inputseq inputembeddings tokenembeddings z "
    "feats sentence words wordvectors vectors inputvectors inputx tgt target state states",
    "q": "q query queries qin xq querystates qinput qs qx inputsq inputq queryinput querytensor "
    "tensorq qvec inputquery queryvectors qmat qry",
    "k": "k key keys kin xk keystates kinput ks inputsk inputk keyinput keytensor inputkey kmat "
    "keyvectors",
    "v": "v value values vin xv valuestates vinput vs val vals inputsv inputv valueinput "
    "valuetensor inputvalue vmat valuevectors",
    "context": "context memory encout encoutput encoutputs encoderoutput encoderoutputs "
    "encoderhiddenstates encoderstates mem ctx cond y source xkv xcontext enc encoder xenc other "
    "xc conditioning contextx encoderout contexts keyvalue kv keyvaluestates xencoder xdecenc",
    "mask": "mask attnmask attentionmask srcmask m masks attmask maskin mskin amask msk tgtmask "
    "selfmask attnmasks attnbias attentionbias scorebias keepmask keep allowed visible "
    "lookaheadmask memorymask srctgtmask",
    "pad": "keypaddingmask paddingmask padmask srckeypaddingmask pad ispad padding mempadmask "
    "tokenmask "
    "kpm validmask keymask kmask sequencemask inputmask seqmask srcpadmask contextmask maskpad "
    "wordmask realmask kpadmask valid isvalid validtokens isreal real present istoken ispadding",
    "lengths": "validlens validlen lengths lens seqlens seqlengths length xlens inputlengths klens "
    "keylengths seqlen validlengths",
    "causal": "causal iscausal usecausal causalmask usecausalmask autoregressive maskfuture "
    "masked applycausal ismasked docausal usemask lookahead maskedfuture",
    "window": "window windowsize w win slidingwindow localwindow attentionwindow "
    "radius bandwidth span band neighborhood lookback contextwindow halfwindow localsize",
    "heads": "heads numheads nheads nhead nh numattentionheads nbheads head hs nqheads "
    "numqueryheads nheadsq numqheads hq qheads queryheads headsnum headcount",
    "groups": "nkvheads numkvheads numkeyvalueheads kvheads nkvhead ngroups numgroups groups nkv "
    "hkv kvh nqueriesgroups numkvgroups nkvgroups kvheadsnum multiquerygroupnum",
    "head_dim": "dk dkv headdim dimhead headsize dhead dv keydim valuedim dkey dvalue depth "
    "attndim "
    "attentiondim dimk dimv hd dh dimperhead kdim vdim headwidth dq",
    "model_dim": "embedsize dmodel nembd dim hiddensize embeddim embeddingdim embsize modeldim "
    "hiddendim hiddim din dout indim inputdim infeatures channels width nunits d size dimin "
    "dimout outdim embdim e querydim nembed dimmodel units c modelsize embeddingsize inputsize "
    "outputdim outfeatures contextdim crossdim demb nstate nhidden emb inchannels nin outputsize "
    "dimmodel modelwidth nx outdimension edim features",
    "length": "blocksize maxlen maxseqlen contextlength maxlength npositions nctx ctxlen ctx "
    "maxposition maxpositionembeddings contextsize maxsequencelength maxtokens contextlen maxt "
    "maxseqlength sequencemax maxpositions maxpos",
    "exact_length": "seqlen sequencelength seqlength ntokens t n length numtokens tokens l",
    "dropout": "dropout drop p attndropout dropoutrate attnpdrop residpdrop attndrop dropoutp "
    "attentiondropout projdrop pdropout dropprob attentionprobsdropoutprob droprate pdrop rate "
    "hiddendropoutprob dropoutprob keepprob embdpdrop",
    "training": "training train istraining istrain",
    "bias": "bias qkvbias usebias addbias attnbias outbias projbias",
    "layers": "nlayer nlayers numlayers layers depthlayers numhiddenlayers",
    "hidden": "dff ffn dimfeedforward ffdim hiddenff intermediatesize ffhidden forwardexpansion "
    "mlpratio",
    "vocab": "vocabsize vocab nvocab",
    "scale": "scale scaling softmaxscale smscale",
    "cache": "cache past pastkv layerpast kvcache pastkeyvalue pastkeyvalues kvpast "
    "incrementalstate "
    "prev prevkv layercache state pastkvs pastk pastv kcache vcache cachek cachev",
    "position": "pos positions positionids startpos offset start posoffset inputpos cachepos step "
    "position cachelen pastlen",
    "freqs": "freqscis freqs cos sin rope rotary positionembeddings freqscomplex cossin",
    "returns": "returnweights needweights returnattention outputattentions returnattn "
    "returnattentionweights usecache returncache withweights returnprobs outputattention",
}
_ROLE: dict[str, str] = {}
for _role, _words in _PARAMETERS.items():
    for _word in _words.split():
        _ROLE.setdefault(_word, _role)  # the first role that claims a word has it


def plain(name: str) -> str:
    """The name in lower case without underscores."""
    return re.sub(r"[\W_]+", "", name.lower())


def _parts(name: str) -> set[str]:
    """The words of a name in snake or camel case, in lower case."""
    found = re.findall(r"[a-z]+|[A-Z](?:[a-z]+|[A-Z]*(?![a-z]))", name)
    return {part.lower() for part in found}


def parameter_role(name: str) -> str:
    """The role of a call's parameter; ``other`` for a name that none goes by."""
    if weight := weight_role(name, alone=True):
        return weight
    word = plain(name)
    for candidate in (word, word.rstrip("0123456789")):
        if candidate in _ROLE:
            role = _ROLE[candidate]
            return "heads" if name == "h" else role
    if "mask" in word:
        return "pad" if "pad" in word or "key" in word else "mask"
    if word.endswith(("heads", "nhead")):
        return "groups" if "kv" in word else "heads"
    part = re.fullmatch(
        r"(?:past_|cached_)?([qkv])_(?:past|cached?|prev|all|full|seq|new|mem\w*)", name
    )
    if part:
        return part.group(1)
    parts = _parts(name)
    for role, sides in _SIDES.items():
        if parts and parts <= _OF_INPUTS | sides:
            return role
    if word.startswith(("query", "queries")):
        return "q"
    if word.startswith("key"):
        return "k"
    if word.startswith("value"):
        return "v"
    return "other"


_INPUT_WORDS = (
    "x xs h inp input inputs in token tokens word words hidden state states embedding embeddings "
    "embedded emb embs feature features feat feats seq sequence sequences src source sentence "
    "patch patches frame frames vector vectors tensor data batch sample samples node nodes "
    "encoded stream residual activations matrix layer item items"
)
_OF_INPUTS = frozenset(_INPUT_WORDS.split())
"""What the words of an input's name may be, if each is one of these."""


_SIDES = {
    "x": frozenset({"decoder", "dec", "target", "tgt", "trg", "current", "cur"}),
    "context": frozenset(
        {"encoder", "enc", "memory", "mem", "context", "ctx", "cond", "out", "output", "outputs"}
    ),
}
"""More such words: of what attends, and of what it attends to."""


def known_parameter(name: str, role: str) -> bool:
    """Whether a parameter's whole name is one of the usual ones of this role."""
    return _ROLE.get(plain(name)) == role


def size_role(name: str) -> str:
    """The role of a constructor's parameter, where ``h`` and ``d`` are sizes."""
    word = plain(name)
    sizes = (
        "heads groups head_dim model_dim length exact_length dropout bias layers hidden vocab "
        "window causal training scale"
    )
    special = {"h": "heads", "c": "model_dim", "k": "model_dim", "w": "window", "emb": "model_dim",
               "embed": "model_dim", "hidden": "model_dim", "depth": "head_dim", "hs": "head_dim",
               "features": "model_dim", "heads": "heads", "embeddings": "model_dim"}  # fmt: skip
    if word in special:
        return special[word]
    for role in sizes.split():
        if word in _PARAMETERS[role].split():
            return role
    if "head" in word and not re.search(r"dim|size|width|headd$|^d", word):
        return "groups" if "kv" in word or "key" in word else "heads"
    if "drop" in word:
        return "dropout"
    if "bias" in word:
        return "bias"
    if word.endswith(("dim", "size", "features", "units", "channels")):
        return "model_dim"
    if "len" in word or "pos" in word:
        return "length"
    parts = _parts(name)
    sized = parts & {"d", "dim", "size", "width", "depth", "dims", "n"}
    if "head" in parts and (sized or "per" in parts):
        return "head_dim"
    if sized and parts & {"q", "k", "v", "query", "key", "value"}:
        return "head_dim"
    words = {"emb", "embed", "embedding", "model", "hidden", "feat", "feature", "width", "channel"}
    return "model_dim" if parts & words else "other"


_FILLER = {
    "w",
    "weight",
    "weights",
    "proj",
    "projection",
    "linear",
    "lin",
    "fc",
    "to",
    "layer",
    "dense",
    "transform",
    "matrix",
    "mat",
    "map",
    "net",
    "self",
    "kernel",
    "embed",
    "attn",
    "attention",
    "s",
    "mapping",
    "heads",
    "head",
    "h",
    "list",
    "c",
    "b",
    "bias",
    "all",
    "multi",
    "mh",
    "mha",
    "params",
    "param",
    "the",
    "affine",
    "projector",
    "l",
    "m",
    "p",
    "ws",
    "att",
    "fn",
    "block",
    "conv",
    "d",
    "projections",
    "layers",
    "mappings",
    "maps",
    "linears",
    "transforms",
    "per",
    "multihead",
    "cross",
    "general",
    "module",
    "x",
}
_WEIGHT: dict[str, set[str]] = {
    "q": {
        "q",
        "query",
        "queries",
        "qs",
        "wq",
        "qw",
        "bq",
        "toq",
        "qproj",
        "qlin",
        "tq",
        "qry",
        "toqueries",
    },
    "k": {"k", "key", "keys", "ks", "wk", "kw", "bk", "tok", "kproj", "klin", "tk", "tokeys"},
    "v": {
        "v",
        "value",
        "values",
        "vs",
        "wv",
        "vw",
        "bv",
        "tov",
        "vproj",
        "vlin",
        "tv",
        "val",
        "tovalues",
    },
    "o": {
        "o",
        "out",
        "output",
        "wo",
        "bo",
        "toout",
        "oproj",
        "unify",
        "unifyheads",
        "final",
        "combine",
        "merge",
        "concat",
        "outproj",
        "mix",
        "ow",
        "res",
        "wout",
        "last",
        "end",
        "outputs",
    },
    "qkv": {
        "qkv",
        "wqkv",
        "toqkv",
        "in",
        "cattn",
        "inproj",
        "wpack",
        "pack",
        "qkvs",
        "tokqv",
        "kqv",
        "bqkv",
        "qkvproj",
    },
    "kv": {"kv", "wkv", "tokv", "kvs"},
}
_ALIAS = {"c_attn": "qkv", "c_proj": "o", "proj": "o", "fc": "o", "dense": "o", "projection": "o",
          "fc_out": "o", "out_lin": "o", "w_0": "o", "w0": "o", "linear": "o", "in_proj": "qkv",
          "linear_out": "o", "to_out": "o", "attn": "qkv", "unifyheads": "o", "w_concat": "o",
          "query_key_value": "qkv", "qkv_proj": "qkv", "w_z": "o", "wz": "o",
          "z_proj": "o"}  # fmt: skip


def weight_role(name: str, *, alone: bool = False) -> str | None:
    """q, k, v, o, qkv or kv for the name of a projection; None for another.

    ``alone`` is for parameters of a call, where a bare ``q`` is an input and no weight.
    """
    base = name.rpartition(".")[2] if not alone else name
    lower = base.lower()
    if alone:
        match = re.fullmatch(
            r"(?:w|b|weights?|proj|mat|matrix|kernel|lin|linear|fc|dense|to)_?(q|k|v|o|qkv|kv|query|key|value|out|"
            r"output|0|z)"
            r"(?:_?(?:heads?|list|all|s|h|w|weights?|matrix|mat))?"
            r"|(q|k|v|o|query|key|value|out|output|qkv|in)_?(?:w|weights?|proj|mat|matrix|kernel|"
            r"linear|"
            r"projection)(?:s|_weights?|_w)?",
            lower,
        )
        if not match:
            return None
        word = next(g for g in match.groups() if g)
        role = {"query": "q", "key": "k", "value": "v", "0": "o", "z": "o", "in": "qkv",
                "out": "o", "output": "o"}.get(word, word)  # fmt: skip
        return ("b" if lower.startswith("b") else "w") + role
    if lower in _ALIAS:
        return _ALIAS[lower]
    words = re.sub(r"([a-z])([A-Z])", r"\1_\2", base).lower()
    tokens = [t for t in re.split(r"[_\W\d]+", words) if t]
    rest = [t for t in tokens if t not in _FILLER] or tokens
    for role, names in _WEIGHT.items():
        if "".join(rest) in names or "".join(tokens) in names:
            return role
    for role, names in _WEIGHT.items():
        if rest and rest[0] in names and (len(rest[0]) > 1 or rest[0] == tokens[0]):
            return role
    return None
