// RUN: ocannl-opt %s -p fold-layers --verify-diagnostics | filecheck %s

// Layers are equal where their shapes are.
// CHECK: the shape ...|...->... is not final: run infer-shapes first
texpr.routine @f {
  %x0 = texpr.param "x0" : !texpr.tensor<...b0 | ...i0 -> ...o0>
  %w1 = texpr.param "w1" : !texpr.tensor<...b7 | ...i1 -> ...o3>
  %x1 = texpr.apply add= mul(%w1, %x0) logic "@" : !texpr.tensor<...b0 | ...i0 -> ...o0>
  %w2 = texpr.param "w2" : !texpr.tensor<...b7 | ...i1 -> ...o3>
  %x2 = texpr.apply add= mul(%w2, %x1) logic "@" : !texpr.tensor<...b0 | ...i0 -> ...o0>
  %w3 = texpr.param "w3" : !texpr.tensor<...b7 | ...i1 -> ...o3>
  %x3 = texpr.apply add= mul(%w3, %x2) logic "@" : !texpr.tensor<...b0 | ...i0 -> ...o0>
  %w4 = texpr.param "w4" : !texpr.tensor<...b7 | ...i1 -> ...o3>
  %x4 = texpr.apply add= mul(%w4, %x3) logic "@" : !texpr.tensor<...b0 | ...i0 -> ...o0>
  %w5 = texpr.param "w5" : !texpr.tensor<...b7 | ...i1 -> ...o3>
  %x5 = texpr.apply add= mul(%w5, %x4) logic "@" : !texpr.tensor<...b0 | ...i0 -> ...o0>
  %w6 = texpr.param "w6" : !texpr.tensor<...b7 | ...i1 -> ...o3>
  %x6 = texpr.apply add= mul(%w6, %x5) logic "@" : !texpr.tensor<...b0 | ...i0 -> ...o0>
  %w7 = texpr.param "w7" : !texpr.tensor<...b7 | ...i1 -> ...o3>
  %x7 = texpr.apply add= mul(%w7, %x6) logic "@" : !texpr.tensor<...b0 | ...i0 -> ...o0>
  %w8 = texpr.param "w8" : !texpr.tensor<...b7 | ...i1 -> ...o3>
  %x8 = texpr.apply add= mul(%w8, %x7) logic "@" : !texpr.tensor<...b0 | ...i0 -> ...o0>
  texpr.forward %x8
}
