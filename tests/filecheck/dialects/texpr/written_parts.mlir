// RUN: ocannl-opt %s | ocannl-opt | filecheck %s
// RUN: ocannl-opt %s -p infer-shapes,infer-precisions,infer-projections | filecheck %s --check-prefix=MAPS

// CHECK: texpr.assign %m at n = %v logic "."
// CHECK: texpr.assign %m at [_, 0 to 3 by 2, ... | ... -> ...] add= %v logic "."
// MAPS: texpr.assign %m[n, b, o] = %v[o] over (b = 5, o = 4)
// MAPS: texpr.assign %m[b, 2*b1, o] add= %v[o] over (b = 2, b1 = 2, o = 4)
texpr.routine @parts indices (n = 2) {
  %m = texpr.node "m" : !texpr.tensor<2, 5 | 4, f32>
  %v = texpr.data "v" : !texpr.tensor<4, f32>
  texpr.assign %m at n = %v logic "."
  texpr.assign %m at [_, 0 to 4 by 2, ... | ... -> ...] add= %v logic "."
}
