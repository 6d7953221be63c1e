// RUN: ocannl-opt %s | ocannl-opt | filecheck %s
// RUN: ocannl-opt %s -p infer-shapes,infer-precisions,infer-projections | filecheck %s --check-prefix=MAPS

// CHECK: texpr.slice %x at 1 : !texpr.tensor
// CHECK: texpr.slice %x at [_, 1 to 4 by 2, ... | ... -> ..., 3 to -1 by -1] : !texpr.tensor
// CHECK: texpr.slice %part at n : !texpr.tensor

// MAPS: %part = texpr.apply [b, b1, o] = %x[b, 2*b1 + 1, -o + 3] over (b = 2, b1 = 2, o = 4) {{.*}}2, 2 | 4, f32>
// MAPS: %row = texpr.apply [b, o] = %part[n, b, o] over (b = 2, o = 4)
texpr.routine @parts indices (n = 2) {
  %x = texpr.data "x" : !texpr.tensor<2, 5 | 4, f32>
  %first = texpr.slice %x at 1 : !texpr.tensor<...b0 | ...i1 -> ...o2>
  %part = texpr.slice %x at [_, 1 to 5 by 2, ... | ... -> ..., 3 to -1 by -1] : !texpr.tensor<...b3 | ...i4 -> ...o5>
  %row = texpr.slice %part at [n, ... | ... -> ...] : !texpr.tensor<...b6 | ...i7 -> ...o8>
  texpr.forward %first
  texpr.forward %row
}
