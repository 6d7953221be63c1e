// RUN: ocannl-opt %s --split-input-file --verify-diagnostics -p infer-shapes,infer-precisions,infer-projections,lower-texpr-to-assign,lower-assign-to-loops,inline-nodes | filecheck %s

// A mode that is asked for is kept by projection, and obeyed.
// CHECK-LABEL: loops.func @modes
// CHECK-DAG:     "kept" on_device because "it is to be in memory"
// CHECK-DAG:     "again" virtual because "computed where it is used: {{.*}}"
// CHECK:         loops.nest "kept" (o = 4) {
// CHECK:         loops.nest "y" (a = 4, b = 4) {
// CHECK:           loops.reduce add (b1 = 9)
texpr.routine @modes {
  %x = texpr.data "x" : !texpr.tensor<4, f32>
  %z = texpr.data "z" : !texpr.tensor<4, 9, f32>
  %kept = texpr.apply = neg(%x) logic "." materialized : !texpr.tensor<4, f32>
  %again = texpr.apply add= %z logic "a b => a" virtual : !texpr.tensor<4, f32>
  %y = texpr.apply add= mul(%kept, %again) logic "a; b => a b" : !texpr.tensor<4, 4, f32>
  texpr.forward %y
}

// -----

texpr.routine @not_virtual {
  %z = texpr.data "z" : !texpr.tensor<4, 9, f32>
  // expected-error @below {{`inner` cannot be virtual}}
  %inner = texpr.apply add= %z logic "a b => a" virtual : !texpr.tensor<4, f32>
  %y = texpr.apply add= mul(%inner, %z) logic "a; a b => 0" : !texpr.tensor<1, f32>
  texpr.forward %y
}

// -----

// What several points add to is the part of a larger array that is kept: neither is inlined.
texpr.routine @spread {
  %x = texpr.data "x" : !texpr.tensor<8, f32>
  %k = texpr.data "k" : !texpr.tensor<3, f32>
  // expected-error @below {{`spread` cannot be virtual: another reduction would repeat it, several points accumulate in a cell}}
  %spread = texpr.apply add= mul(%x, %k) logic "o; k => o =+ k" virtual : !texpr.tensor<8, f32>
  %y = texpr.apply = neg(%spread) logic "." : !texpr.tensor<8, f32>
  texpr.forward %y
}
