//! The [`document!`](crate::document) macro.

/// Defines a document: a struct whose members are read without regard to case, whose blank fields are not
/// written, and whose unknown members are kept in `extra`.
///
/// A field is `name: Type = "Key"`, then `| "Alias"` for each further key that is read, `via Wire` when the JSON is
/// read as `Wire` and turned into the field's type, and `; always` when it is written even if blank.
#[macro_export]
macro_rules! document {
    ($(#[$meta:meta])* pub struct $name:ident {
        $($(#[$fmeta:meta])* $field:ident : $ty:ty = $key:literal $(| $alias:literal)* $(via $wire:ty)?
            $(; $always:ident)?),* $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $name {
            $($(#[$fmeta])* pub $field: $ty,)*
            /// Members this crate does not know, in order and byte for byte.
            pub extra: $crate::json::Extra,
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
                use serde::ser::SerializeMap as _;
                let mut map = serializer.serialize_map(None)?;
                $($crate::json::write_member!(map, &self.$field, $key $(, $always)?);)*
                $crate::json::write_extra(&mut map, &self.extra)?;
                map.end()
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
                let members = <$crate::json::Members<'de> as serde::Deserialize>::deserialize(deserializer)?;
                let mut document = Self::default();
                for (key, raw) in members.0 {
                    $(if key.eq_ignore_ascii_case($key) $(|| key.eq_ignore_ascii_case($alias))* {
                        document.$field = $crate::json::read_member!(
                            D::Error, stringify!($name), $key, raw, $ty $(, $wire)?);
                        continue;
                    })*
                    document.extra.0.push((key.into_owned(), $crate::json::RawJson::from(raw)));
                }
                Ok(document)
            }
        }

        impl $name {
            /// The names of the members that have a field, with the further names that are read.
            pub const KEYS: &'static [&'static str] = &[$($key, $($alias,)*)*];

            /// Reads the document from JSON text; the error names the field.
            pub fn parse(text: &str) -> std::result::Result<Self, serde_json::Error> {
                serde_json::from_str(text)
            }

            /// The document as compact JSON text.
            pub fn to_json(&self) -> String {
                // Writing into a string cannot fail: keys are strings and no field has a failing serializer.
                serde_json::to_string(self).unwrap_or_default()
            }
        }
    };
}

/// How [`document!`](crate::document) writes one field.
#[doc(hidden)]
#[macro_export]
macro_rules! __write_member {
    ($map:ident, $value:expr, $key:literal) => {
        if !$crate::json::Blank::is_blank($value) {
            $map.serialize_entry($key, $value)?;
        }
    };
    ($map:ident, $value:expr, $key:literal, always) => {
        $map.serialize_entry($key, $value)?;
    };
}
#[doc(hidden)]
pub use __write_member as write_member;

/// How [`document!`](crate::document) reads one field; `null` is the default.
#[doc(hidden)]
#[macro_export]
macro_rules! __read_member {
    ($error:ty, $document:expr, $key:literal, $raw:ident, $ty:ty) => {
        $crate::json::member::<Option<$ty>, $error>($document, $key, $raw)?.unwrap_or_default()
    };
    ($error:ty, $document:expr, $key:literal, $raw:ident, $ty:ty, $wire:ty) => {
        $crate::json::member::<Option<$wire>, $error>($document, $key, $raw)?
            .map(<$ty>::from)
            .unwrap_or_default()
    };
}
#[doc(hidden)]
pub use __read_member as read_member;
