// Colours of one line of IR, LLVM, assembly or Python.

const TOKENS = {
  ir: /("(?:[^"\\]|\\.)*")|(\/\/.*)|(%[\w$.-]+|@"?[\w$. -]+"?)|(\b(?:texpr|assign|loops|kernel|arith|math|builtin)\.[\w.]+)|(\b-?\d[\w.+-]*\b)/g,
  llvm: /("(?:[^"\\]|\\.)*")|(;.*)|(%[\w$.-]+|@[\w$.]+)|(\b(?:define|call|load|store|getelementptr|phi|br|ret|add|mul|sub|fadd|fmul|fsub|fdiv|icmp|fcmp|select|shufflevector|insertelement|extractelement)\b)|(\b\d[\w.+-]*\b)/g,
  "machine code": /("(?:[^"\\]|\\.)*")|([#;].*)|(%\w+|\$[\w.-]+)|(^\s+[a-z][\w.]*)|(\b\d\w*\b)/g,
  python: /("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(#.*)|(@\w[\w.]*)|(\b(?:def|class|return|for|in|if|else|elif|with|as|import|from|lambda|while|not|and|or|None|True|False|yield|raise|try|except)\b)|(\b\d[\w.]*\b)/g,
};
const CLASSES = ["s-string", "s-comment", "s-name", "s-op", "s-number"];

function coloured(text, level) {
  const line = text.length > 2000 ? text.slice(0, 2000) + " …" : text;
  const parts = [];
  let end = 0;
  for (const match of line.matchAll(TOKENS[level] || TOKENS.ir)) {
    if (match.index > end) parts.push(line.slice(end, match.index));
    const kind = match.slice(1).findIndex((group) => group !== undefined);
    parts.push(make("span", { class: CLASSES[kind] }, match[0]));
    end = match.index + match[0].length;
  }
  parts.push(line.slice(end));
  return parts;
}
