//! Headers and attributes: small ordered maps without repeated names.

use std::fmt;

use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// The header in which a message carries the right to be processed once; its sender makes it.
pub const TOKEN_HEADER: &str = "postrider-token";

/// The members of a JSON object as they stand there, repeated names included.
struct Members(Vec<(String, Value)>);

impl Members {
    /// # Errors
    /// The first name that is repeated, or whose value is no text and nothing that foreign hands write for one.
    fn into_pairs(self) -> Result<Vec<(String, String)>, String> {
        let mut pairs: Vec<(String, String)> = Vec::with_capacity(self.0.len());
        for (name, value) in self.0 {
            if pairs.iter().any(|(known, _)| *known == name) {
                return Err(format!("the name {name:?} is repeated"));
            }
            let value = match value {
                Value::String(text) => text,
                Value::Number(number) => number.to_string(),
                Value::Bool(truth) => truth.to_string(),
                Value::Null | Value::Array(_) | Value::Object(_) => {
                    return Err(format!("expected a string as the value of {name:?}"));
                }
            };
            pairs.push((name, value));
        }
        Ok(pairs)
    }
}

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object of strings")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(InOrder)
    }
}

macro_rules! ordered_map {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Default)]
        pub struct $name(Vec<(String, String)>);

        impl $name {
            /// Sets a name; an existing one keeps its place and gets the new value.
            pub fn set(&mut self, name: impl Into<String>, value: impl Into<String>) {
                let (name, value) = (name.into(), value.into());
                match self.0.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, old)) => *old = value,
                    None => self.0.push((name, value)),
                }
            }

            /// The value of a name.
            pub fn get(&self, name: &str) -> Option<&str> {
                self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
            }

            /// Every name with its value, in the order in which they were set.
            pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
                self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
            }

            /// How many there are.
            pub fn len(&self) -> usize {
                self.0.len()
            }

            /// Whether there is none.
            pub fn is_empty(&self) -> bool {
                self.0.is_empty()
            }

            /// Reads a JSON object of strings, the form of the table's column.
            ///
            /// Numbers and booleans are taken as their text, because foreign hands write them.
            ///
            /// # Errors
            /// What is wrong, in words, when the text is not such an object or repeats a name.
            pub fn from_json(text: &str) -> Result<Self, String> {
                let members: Members =
                    serde_json::from_str(text).map_err(|error| format!("expected a JSON object of strings: {error}"))?;
                members.into_pairs().map(Self)
            }

            /// Writes the JSON object of the table's column; none when there is nothing to write.
            pub fn to_json(&self) -> Option<String> {
                (!self.is_empty()).then(|| serde_json::to_string(self).unwrap_or_default())
            }

            pub(crate) fn weight(&self) -> usize {
                self.0.iter().map(|(name, value)| name.len() + value.len()).sum()
            }
        }

        impl FromIterator<(String, String)> for $name {
            fn from_iter<I: IntoIterator<Item = (String, String)>>(pairs: I) -> Self {
                let mut map = Self::default();
                for (name, value) in pairs {
                    map.set(name, value);
                }
                map
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_map(self.iter())
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Members::deserialize(deserializer)?.into_pairs().map(Self).map_err(D::Error::custom)
            }
        }
    };
}

ordered_map!(
    /// The headers of a message: names to strings, order kept, no repeated names.
    Headers
);
ordered_map!(
    /// What one broker alone understands, as `prefix.name`; each broker parses and validates its own prefix.
    Attributes
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_a_json_object_is_kept_and_numbers_are_their_text() {
        let headers = Headers::from_json(r#"{"b": "1", "a": 2, "c": true}"#).unwrap();
        assert_eq!(headers.iter().collect::<Vec<_>>(), [("b", "1"), ("a", "2"), ("c", "true")]);
        let line: Headers = serde_json::from_str(r#"{"z": "1", "y": "2"}"#).unwrap();
        assert_eq!(line.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["z", "y"]);
    }

    #[test]
    fn a_repeated_name_is_refused_wherever_it_is_read() {
        for text in [r#"{"a": "1", "a": "2"}"#, r#"{"a": "1", "b": "1", "a": "1"}"#] {
            assert!(Headers::from_json(text).unwrap_err().contains("repeated"), "{text}");
            assert!(serde_json::from_str::<Headers>(text).is_err(), "{text}");
            assert!(Attributes::from_json(text).is_err(), "{text}");
        }
        for text in ["[]", "3", r#"{"a": null}"#, r#"{"a": {}}"#, "{"] {
            assert!(Headers::from_json(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_no_object_is_told_what_was_expected() {
        let error = serde_json::from_str::<Headers>("[]").unwrap_err().to_string();
        assert!(error.contains("expected a JSON object of strings"), "{error}");
    }
}
